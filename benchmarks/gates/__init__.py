"""Gates of a refactoring: machine code and plans before and after it are equal.

    python -m benchmarks.gates kernels --output K.json [--arch sm_90 --ranges 16 64 128]
    python -m benchmarks.gates plans --output P.json
    python -m benchmarks.gates compare OLD.json NEW.json [--names TABLE.json]

``kernels`` compiles each kernel of ``test_cuda_compile.py`` and hashes its machine
code; symbols do not matter. ``plans`` writes the passes, arrays and launches of the engines for
the list in ``cases.py``, and the texts of refusals. Neither needs a GPU; both need CuPy.
TABLE.json is ``{"old name": "new name"}``: whole tokens of the old file are replaced. The exit
status of ``compare`` is 0 where both files are equal.
"""
