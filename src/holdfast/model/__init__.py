"""Frozen values and the rules that each carries by itself."""
