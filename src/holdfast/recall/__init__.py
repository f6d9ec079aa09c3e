"""The read path: candidates, features, one ranking, explained hits."""
