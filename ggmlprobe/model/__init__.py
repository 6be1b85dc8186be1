"""Whole models: what a different bit does to logits, argmaxes and text."""
