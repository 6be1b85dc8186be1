"""libllama through cffi: the only place that knows its C API."""
