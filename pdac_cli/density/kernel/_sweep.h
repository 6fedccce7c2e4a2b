/* One pass over the rows of a class: Eqs. (5) and (6), and the sums of Eq. (7); `sweep.py` explains the arithmetic.

   The quadratic features phi are never written down: four rows stand side by side in a vector, a tile of up to seven
   components in registers.  Every row sees the same operations in the same order wherever it stands, and sums are taken
   block by block, lane by lane; so the answer depends on the class's rows alone. */

#define TILE 7 /* components at once: with a row's feature and what comes from memory they fill 16 registers */
#define MOST 4 /* of what is taken beside one another */

enum { VECTORS = ROWS / LANES };

/* Room for the work on one block; the pointers go into one piece of memory. */
typedef struct {
    vec *x;     /* (d, ROWS) the block's rows */
    vec *r;     /* (L, ROWS) log-densities, then responsibilities */
    vec *theta; /* for each tile (K, width), every number in all lanes */
    vec *sums;  /* (L, K), lane by lane */
} Room;

typedef struct {
    Py_ssize_t dim, comps, K; /* d, L, (d + 1)(d + 2)/2 */
} Size;

/* 1/12!, 1/11!, ..., 1/0! */
#define ALL(a) {a, a, a, a}
static const vec TAYLOR[] = {
    ALL(1.0 / 479001600), ALL(1.0 / 39916800), ALL(1.0 / 3628800), ALL(1.0 / 362880), ALL(1.0 / 40320),
    ALL(1.0 / 5040),      ALL(1.0 / 720),      ALL(1.0 / 120),     ALL(1.0 / 24),     ALL(1.0 / 6),
    ALL(1.0 / 2),         ALL(1.0),            ALL(1.0),
};

/* exp(x) for x <= 0, to a few units in the last place; 0 below -708.  x = k ln 2 + t with |t| <= ln(2)/2, and exp(t) is
   Taylor's polynomial, whose remainder is t^13/13! < 2e-16. */
INLINE vec exponential(vec x) {
    const vec shift = splat(0x1.8p52); /* added and taken off again, it rounds to an integer */
    mask zero = x < splat(-708.0);
    x = select_where(zero, splat(0.0), x);
    vec shifted = x * splat(0x1.71547652b82fep0) + shift;
    vec k = shifted - shift;
    vec t = (x - k * splat(0x1.62e42fee00000p-1)) - k * splat(0x1.a39ef35793c76p-33);
    vec p = TAYLOR[0];
    for (size_t i = 1; i < sizeof(TAYLOR) / sizeof(vec); i++) p = p * t + TAYLOR[i];
    vec power = (vec)(((bits)shifted + 1023) << 52); /* the integer is in the last bits of `shifted` */
    return select_where(zero, splat(0.0), p * power);
}

/* How many rows or features to take beside one another, so that their sums for a tile stay in registers. */
INLINE int at_once(int width, int registers) { return registers > 16 ? MOST : width <= TILE / 2 ? 2 : 1; }

/* Weighted log-densities theta.phi of a tile of `width` components for `rows` vectors of rows, Eq. (5). */
INLINE void log_densities(const vec *x, const vec *theta, Py_ssize_t dim, int width, int rows, vec *out) {
    vec sum[TILE][MOST];
    for (int l = 0; l < width; l++)
        for (int v = 0; v < rows; v++) sum[l][v] = theta[l];
    theta += width;
    for (Py_ssize_t i = 0; i < dim; i++, theta += width)
        for (int v = 0; v < rows; v++)
            for (int l = 0; l < width; l++) sum[l][v] += theta[l] * x[i * VECTORS + v];
    for (Py_ssize_t i = 0; i < dim; i++)
        for (Py_ssize_t j = i; j < dim; j++, theta += width) {
            vec phi[MOST];
            for (int v = 0; v < rows; v++) phi[v] = x[i * VECTORS + v] * x[j * VECTORS + v];
            for (int l = 0; l < width; l++)
                for (int v = 0; v < rows; v++) sum[l][v] += theta[l] * phi[v];
        }
    for (int l = 0; l < width; l++)
        for (int v = 0; v < rows; v++) out[l * VECTORS + v] = sum[l][v];
}

/* Add r_l . (x_i x_j) to the sums of a tile, for `count` neighbouring j; x_i is 1 where `xi` is NULL. */
INLINE void add_features(const vec *xi, const vec *xj, const vec *r, int width, int count, vec *sums, Py_ssize_t K) {
    vec sum[TILE][MOST];
    for (int l = 0; l < width; l++)
        for (int j = 0; j < count; j++) sum[l][j] = sums[l * K + j];
    for (int v = 0; v < VECTORS; v++) {
        vec phi[MOST];
        for (int j = 0; j < count; j++) phi[j] = xi ? xi[v] * xj[j * VECTORS + v] : xj[j * VECTORS + v];
        for (int l = 0; l < width; l++)
            for (int j = 0; j < count; j++) sum[l][j] += r[l * VECTORS + v] * phi[j];
    }
    for (int l = 0; l < width; l++)
        for (int j = 0; j < count; j++) sums[l * K + j] = sum[l][j];
}

INLINE void add_row(const vec *xi, const vec *xj, Py_ssize_t n, const vec *r, int width, int registers, vec *sums,
                    Py_ssize_t K) {
    const int count = at_once(width, registers);
    Py_ssize_t j = 0;
    for (; j + count <= n; j += count) add_features(xi, xj + j * VECTORS, r, width, count, sums + j, K);
    for (; j < n; j++) add_features(xi, xj + j * VECTORS, r, width, 1, sums + j, K);
}

INLINE void expect_tile(const vec *x, const vec *theta, Py_ssize_t dim, int width, int registers, vec *r) {
    const int rows = at_once(width, registers);
    for (int v = 0; v < VECTORS; v += rows) log_densities(x + v, theta, dim, width, rows, r + v);
}

INLINE void maximise_tile(const vec *x, const vec *r, Py_ssize_t dim, int width, int registers, vec *sums,
                          Py_ssize_t K) {
    for (int l = 0; l < width; l++)
        for (int v = 0; v < VECTORS; v++) sums[l * K] += r[l * VECTORS + v];
    add_row(NULL, x, dim, r, width, registers, sums + 1, K);
    sums += 1 + dim;
    for (Py_ssize_t i = 0; i < dim; sums += dim - i, i++)
        add_row(x + i * VECTORS, x + i * VECTORS, dim - i, r, width, registers, sums, K);
}

#define FOR_WIDTH(width, call) \
    switch (width) {           \
        case 1: call(1); break; \
        case 2: call(2); break; \
        case 3: call(3); break; \
        case 4: call(4); break; \
        case 5: call(5); break; \
        case 6: call(6); break; \
        case 7: call(7); break; \
    }

/* The tiles: as few as there can be, as equal as they can be. */
INLINE int tile_width(Py_ssize_t comps, Py_ssize_t first) {
    Py_ssize_t tiles = (comps + TILE - 1) / TILE, left = comps - first;
    Py_ssize_t size = comps / tiles, larger = comps % tiles; /* the first `larger` tiles have one more */
    return (int)(first < larger * (size + 1) ? size + 1 : left < size ? left : size);
}

/* Turn log-densities into responsibilities, Eq. (6); return the block's log-likelihood.  Rows from `valid` on are
   padding and get 0. */
INLINE double normalise(vec *r, Py_ssize_t comps, Py_ssize_t valid) {
    vec largest_sum = splat(0.0), product = splat(1.0);
    for (int v = 0; v < VECTORS; v++) {
        vec largest = r[v], total = splat(0.0);
        for (Py_ssize_t l = 1; l < comps; l++) {
            vec one = r[l * VECTORS + v];
            largest = select_where(one > largest, one, largest);
        }
        for (Py_ssize_t l = 0; l < comps; l++) {
            vec one = exponential(r[l * VECTORS + v] - largest);
            total += one;
            r[l * VECTORS + v] = one;
        }
        vec inverse = splat(1.0) / total;
        const mask row = (mask){0, 1, 2, 3} + (int64_t)(v * LANES);
        const mask real = row < (int64_t)valid;
        for (Py_ssize_t l = 0; l < comps; l++)
            r[l * VECTORS + v] = select_where(real, r[l * VECTORS + v] * inverse, splat(0.0));
        largest_sum += select_where(real, largest, splat(0.0));
        product *= select_where(real, total, splat(1.0)); /* of 32 numbers from 1 to L: far from overflow */
    }
    double logs = 0;
    for (int lane = 0; lane < LANES; lane++) logs += log(product[lane]);
    return logs + across(largest_sum);
}

/* All blocks of one class. */
INLINE double class_pass(const double *xi, Py_ssize_t rows, Size size, const double *theta, double *sums, Room room,
                         int registers) {
    const Py_ssize_t dim = size.dim, comps = size.comps, K = size.K;
    double log_likelihood = 0;
    for (Py_ssize_t first = 0; first < comps; first += tile_width(comps, first)) {
        const int width = tile_width(comps, first);
        for (Py_ssize_t q = 0; q < K; q++)
            for (int l = 0; l < width; l++) room.theta[first * K + q * width + l] = splat(theta[(first + l) * K + q]);
    }
    memset(room.sums, 0, sizeof(vec) * (size_t)(comps * K));
    for (Py_ssize_t at = 0; at < rows; at += ROWS, xi += dim * ROWS) {
        memcpy(room.x, xi, sizeof(double) * (size_t)(dim * ROWS));
        for (Py_ssize_t first = 0; first < comps; first += tile_width(comps, first)) {
#define EXPECT(width) expect_tile(room.x, room.theta + first * K, dim, width, registers, room.r + first * VECTORS)
            FOR_WIDTH(tile_width(comps, first), EXPECT)
        }
        log_likelihood += normalise(room.r, comps, rows - at);
        if (sums)
            for (Py_ssize_t first = 0; first < comps; first += tile_width(comps, first)) {
#define MAXIMISE(width) \
    maximise_tile(room.x, room.r + first * VECTORS, dim, width, registers, room.sums + first * K, K)
                FOR_WIDTH(tile_width(comps, first), MAXIMISE)
            }
    }
    if (sums)
        for (Py_ssize_t i = 0; i < comps * K; i++) sums[i] = across(room.sums[i]);
    return log_likelihood;
}
