"""Our own engine: a small C++ library that computes Transformers with 8-bit integers or float32."""
