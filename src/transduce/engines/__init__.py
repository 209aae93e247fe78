"""Engines that run an exported model in place of PyTorch: onnxruntime and CTranslate2."""
