"""The only room that talks to libggml: find and load it, its devices, tensors and types."""
