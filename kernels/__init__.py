"""Kernels of the real device: each operation's torch reference, and beside it (`*_triton`) its Triton kernel.

Imports torch and triton only. Nothing is imported here, so that finding this package costs nothing: another library
looks for a package of this name and asks for its version. It must not find one: this package has no `__version__`.

Shapes: T tokens of a step, R rows that decode, H query heads, G of them to each of K key/value heads, D head size, B
blocks of S tokens, V vocabulary. A layer's keys and its values lie in paged tensors [B, S, K, D]; the token at offset o
of block b is in *slot* b*S + o.
"""
