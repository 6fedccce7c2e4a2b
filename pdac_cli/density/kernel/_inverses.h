/* The inverses of many small matrices, four side by side. */

/* Invert positive definite matrices of `width` rows, one in each lane.  A (width, width), of which the lower triangle is
   read, is overwritten; `inverse` are the upper triangles, row by row, and `half_log` half the logarithms of the
   determinants.  Returns in which lanes there was a matrix without an inverse. */
INLINE mask invert(vec *A, Py_ssize_t width, vec *inverse, vec *half_log) {
    mask bad = {0};
    *half_log = splat(0.0);
    for (Py_ssize_t j = 0; j < width; j++) { /* Cholesky's factor, with the inverse of its diagonal */
        vec pivot = A[j * width + j];
        for (Py_ssize_t k = 0; k < j; k++) pivot -= A[j * width + k] * A[j * width + k];
        bad |= ~(pivot > splat(0.0));
        for (int lane = 0; lane < LANES; lane++) {
            A[j * width + j][lane] = 1.0 / sqrt(pivot[lane]);
            (*half_log)[lane] += 0.5 * log(pivot[lane]);
        }
        for (Py_ssize_t i = j + 1; i < width; i++) {
            vec sum = A[i * width + j];
            for (Py_ssize_t k = 0; k < j; k++) sum -= A[i * width + k] * A[j * width + k];
            A[i * width + j] = sum * A[j * width + j];
        }
    }
    for (Py_ssize_t j = 0; j < width; j++) /* the factor's inverse, in its place */
        for (Py_ssize_t i = j + 1; i < width; i++) {
            vec sum = splat(0.0);
            for (Py_ssize_t k = j; k < i; k++) sum -= A[i * width + k] * A[k * width + j];
            A[i * width + j] = sum * A[i * width + i];
        }
    for (Py_ssize_t i = 0; i < width; i++)
        for (Py_ssize_t j = i; j < width; j++, inverse++) {
            *inverse = splat(0.0);
            for (Py_ssize_t k = j; k < width; k++) *inverse += A[k * width + i] * A[k * width + j];
        }
    return bad;
}

/* All of `count` matrices: (count, width, width) -> (count, K), (count,).  Returns whether all have inverses. */
INLINE int invert_all(const double *matrices, Py_ssize_t count, Py_ssize_t width, double *inverses, double *half_logs,
                      vec *room) {
    const Py_ssize_t size = width * width, K = width * (width + 1) / 2;
    mask bad = {0};
    vec *A = room, *inverse = room + size, half_log;
    for (Py_ssize_t at = 0; at < count; at += LANES)  {
        const Py_ssize_t real = count - at < LANES ? count - at : LANES; /* the others repeat the last one */
        for (Py_ssize_t i = 0; i < size; i++)
            for (int lane = 0; lane < LANES; lane++)
                A[i][lane] = matrices[(at + (lane < real ? lane : real - 1)) * size + i];
        bad |= invert(A, width, inverse, &half_log);
        for (Py_ssize_t lane = 0; lane < real; lane++) {
            for (Py_ssize_t q = 0; q < K; q++) inverses[(at + lane) * K + q] = inverse[q][lane];
            half_logs[at + lane] = half_log[lane];
        }
    }
    return !(bad[0] | bad[1] | bad[2] | bad[3]);
}
