from pdac_cli.density.blocks import Array

def sweep(
    xi: Array,
    firsts: Array,
    counts: Array,
    theta: Array,
    sums: Array,
    log_likelihood: Array,
    dim: int,
    comps: int,
    padded: int,
    /,
) -> None: ...
def inverses(matrices: Array, inverses: Array, half_logs: Array, width: int, /) -> bool: ...
def lanczos(A: Array, V: Array, diagonal: Array, beside: Array, first: int, last: int, /) -> int: ...
