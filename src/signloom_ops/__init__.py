"""Signloom operations: keep a model current as new signing arrives."""
