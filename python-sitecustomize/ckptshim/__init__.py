"""The Python side of ckptagent: frames, proofs and iterations.

Started by ``sitecustomize.py`` in a process that uses torch; never imported by
the job itself. ``boot.start`` is the only entry.
"""
