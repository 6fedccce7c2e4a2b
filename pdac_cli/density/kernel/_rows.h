/* What is done with a class's rows in single precision besides their covariance: they are gathered, put around a point
   near their mean, Eq. (1), and multiplied by the directions, Eq. (4). */

#define FEW 16       /* rows whose sum is taken in single precision */
#define AHEAD 2      /* rows that are asked for before they are needed */
#define LINE 16      /* numbers that come from memory together */
#define TILE_ROWS 4  /* by */
#define TILE_DIMS 3  /* products at once: they and what they need fill 16 registers */

/* out_i = the row of rows (., features) at places[i] */
INLINE void gather_rows(const float *rows, const int64_t *places, Py_ssize_t n, Py_ssize_t features, float *out) {
    for (Py_ssize_t i = 0; i < n; i++, out += features) {
        if (i + AHEAD < n)
            for (Py_ssize_t k = 0; k < features; k += LINE)
                __builtin_prefetch(rows + places[i + AHEAD] * features + k);
        memcpy(out, rows + places[i] * features, sizeof(float) * (size_t)features);
    }
}

/* rows (n, features) -= point, and then sum += weight * the rows, none of which terms overflows where the mean does not */
INLINE void shift_rows(float *rows, Py_ssize_t n, Py_ssize_t features, const float *point, float weight, double *sum) {
    for (; n > 0; n -= FEW, rows += FEW * features) {
        const Py_ssize_t few = n < FEW ? n : FEW;
        Py_ssize_t at = 0;
        for (; at + 2 * WIDE <= features; at += 2 * WIDE) {
            const wide less[2] = {*(const part *)(point + at), *(const part *)(point + at + WIDE)};
            wide total[2] = {{0}};
            for (Py_ssize_t i = 0; i < few; i++)
                for (int q = 0; q < 2; q++) {
                    part *here = (part *)(rows + i * features + at + q * WIDE);
                    const wide shifted = *here - less[q];
                    *here = shifted;
                    total[q] += weight * shifted;
                }
            for (int q = 0; q < 2; q++)
                for (int lane = 0; lane < WIDE; lane++) sum[at + q * WIDE + lane] += total[q][lane];
        }
        for (; at < features; at += WIDE) {
            const Py_ssize_t count = at_most_wide(features - at);
            const wide less = load_some(point + at, count);
            wide total = {0};
            for (Py_ssize_t i = 0; i < few; i++) {
                const wide shifted = load_some(rows + i * features + at, count) - less;
                store_some(rows + i * features + at, count, shifted);
                total += weight * shifted;
            }
            for (Py_ssize_t lane = 0; lane < count; lane++) sum[at + lane] += total[lane];
        }
    }
}

/* out[c * ROWS + i] = row_i . W_c for TILE_ROWS neighbouring rows and `dims` neighbouring directions; `next` is a row
   that is needed soon */
INLINE void project_tile(const float *rows, const float *W, int dims, Py_ssize_t features, const float *next,
                         float *out) {
    wide sum[TILE_ROWS][TILE_DIMS] = {{{0}}};
    Py_ssize_t at = 0;
    for (; at + WIDE <= features; at += WIDE) {
        wide w[TILE_DIMS];
        __builtin_prefetch(next + at);
        for (int c = 0; c < dims; c++) w[c] = *(const part *)(W + c * features + at);
        for (int i = 0; i < TILE_ROWS; i++) {
            const wide x = *(const part *)(rows + i * features + at);
            for (int c = 0; c < dims; c++) sum[i][c] += x * w[c];
        }
    }
    if (at < features)
        for (int i = 0; i < TILE_ROWS; i++) {
            const wide x = load_some(rows + i * features + at, features - at);
            for (int c = 0; c < dims; c++) sum[i][c] += x * load_some(W + c * features + at, features - at);
        }
    for (int i = 0; i < TILE_ROWS; i++)
        for (int c = 0; c < dims; c++) out[c * ROWS + i] = across_wide(sum[i][c]);
}

/* W x for every row x: (blocks * ROWS, features), (dim, features) -> (blocks, dim, ROWS) */
INLINE void project_rows(const float *rows, Py_ssize_t blocks, Py_ssize_t features, const float *W, Py_ssize_t dim,
                         float *out) {
    for (Py_ssize_t block = 0; block < blocks; block++, out += dim * ROWS)
        for (Py_ssize_t i = 0; i < ROWS; i += TILE_ROWS, rows += TILE_ROWS * features) {
            const float *next = rows + TILE_ROWS * features;
            Py_ssize_t c = 0;
            for (; c + TILE_DIMS <= dim; c += TILE_DIMS, next += features)
                project_tile(rows, W + c * features, TILE_DIMS, features, next, out + c * ROWS + i);
            for (; c < dim; c++) project_tile(rows, W + c * features, 1, features, next, out + c * ROWS + i);
        }
}
