"""Terms as values: numbers, times and texts, and the functions of SPARQL on them."""
