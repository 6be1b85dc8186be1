"""Stands in for cupti-python beside tests/c/standin_backend.cpp."""
