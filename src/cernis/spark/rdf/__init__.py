"""What RDF needs on Spark beside what every query has.

`source` is the data source `rdf`, `texts` makes events of texts, and `files` checks files before
Spark starts. Tasks solve the graph patterns of a query where they read its events (`solve`), and
`layout` says how the solutions are spread. `recognize` builds the DataFrames, and `versions` notes
the versions of a live background.
"""
