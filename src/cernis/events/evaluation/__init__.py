"""Predicates, functions and attributes on whole columns."""
