"""Engines that run an exported model in place of PyTorch: our own library, onnxruntime and CTranslate2."""
