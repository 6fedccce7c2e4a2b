/* Steps of Lanczos' method on a dense symmetric matrix in single precision, every new vector made orthogonal to all
   before it, twice. */

/* out[i] = row_i . x for `rows` neighbouring rows of n numbers. */
INLINE void dots(const float *row, int rows, const float *x, Py_ssize_t n, float *out) {
    wide sum[4][2] = {{{0}}};
    Py_ssize_t at = 0;
    for (; at + 2 * WIDE <= n; at += 2 * WIDE)
        for (int i = 0; i < rows; i++)
            for (int half = 0; half < 2; half++)
                sum[i][half] += *(const part *)(row + i * n + at + half * WIDE) * *(const part *)(x + at + half * WIDE);
    for (; at < n; at += WIDE) {
        const Py_ssize_t count = at_most_wide(n - at);
        const wide last = load_some(x + at, count);
        for (int i = 0; i < rows; i++) sum[i][0] += load_some(row + i * n + at, count) * last;
    }
    for (int i = 0; i < rows; i++) out[i] = across_wide(sum[i][0] + sum[i][1]);
}

/* y = A x: (m, n), (n,) -> (m,) */
INLINE void multiply(const float *A, Py_ssize_t m, const float *x, Py_ssize_t n, float *y) {
    Py_ssize_t i = 0;
    for (; i + 4 <= m; i += 4) dots(A + i * n, 4, x, n, y + i);
    for (; i < m; i++) dots(A + i * n, 1, x, n, y + i);
}

/* w -= sum of c_i row_i, for `rows` neighbouring rows. */
INLINE void take_off(const float *row, int rows, const float *c, Py_ssize_t n, float *w) {
    Py_ssize_t at = 0;
    for (; at + WIDE <= n; at += WIDE) {
        wide left = *(const part *)(w + at);
        for (int i = 0; i < rows; i++) left -= *(const part *)(row + i * n + at) * c[i];
        *(part *)(w + at) = left;
    }
    if (at < n) {
        wide left = load_some(w + at, n - at);
        for (int i = 0; i < rows; i++) left -= load_some(row + i * n + at, n - at) * c[i];
        store_some(w + at, n - at, left);
    }
}

/* Make the steps from `first` to `last` on A (n, n): V (last + 1, n), of which rows up to `first` are there already, and
   the diagonal and the one beside it, of V A V'.  Returns at which step it ended: before `last` if the vectors span a
   subspace that A does not leave, or if there is no telling.  c (last,) is room. */
INLINE Py_ssize_t lanczos_steps(const float *A, Py_ssize_t n, float *V, double *diagonal, double *beside,
                                Py_ssize_t first, Py_ssize_t last, float *c) {
    double size = 0;
    for (Py_ssize_t j = 0; j < first; j++) size = fmax(size, fabs(diagonal[j]) + beside[j]);
    for (Py_ssize_t j = first; j < last; j++) {
        const float *v = V + j * n;
        float *w = V + (j + 1) * n, found;
        multiply(A, n, v, n, w);
        dots(v, 1, w, n, &found);
        diagonal[j] = found;
        for (int pass = 0; pass < 2; pass++) {
            Py_ssize_t i = 0;
            multiply(V, j + 1, w, n, c);
            for (; i + 4 <= j + 1; i += 4) take_off(V + i * n, 4, c + i, n, w);
            for (; i <= j; i++) take_off(V + i * n, 1, c + i, n, w);
        }
        dots(w, 1, w, n, &found);
        beside[j] = sqrt(found);
        size = fmax(size, fabs(diagonal[j]) + beside[j]);
        if (!(beside[j] > 1e-6 * size)) return j;
        const float scale = (float)(1 / beside[j]);
        for (Py_ssize_t i = 0; i < n; i++) w[i] *= scale;
    }
    return last;
}
