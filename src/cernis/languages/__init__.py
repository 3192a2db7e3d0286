"""The languages in which a pattern can be written; each lowers its text to a `Pattern`."""
