"""Checking: whether events meet the conditions of a formula, as Python objects, one by one."""
