/* What expectation-maximisation spends its time on, in C; NumPy does the same in `sweep.py` and `mixture.py`.

   `sweep` is one pass over the rows of some classes: Eqs. (5) and (6), and the sums of Eq. (7).  The quadratic features
   phi are never written down: four rows stand side by side in a vector, a tile of up to seven components in registers.
   Every row sees the same operations in the same order wherever it stands, and sums are taken block by block, lane by
   lane; so the answer depends on the class's rows alone, and is the same on all x86 processors with AVX2.

   `inverses` inverts many small matrices, four side by side. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000 /* one build serves Python 3.11 and all later ones */
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__GNUC__)
#error "needs the vector types of GCC or Clang"
#endif

#define ROWS 128 /* of a block, as in blocks.py */
#define LANES 4
#define TILE 7 /* components at once: with a row's feature and what comes from memory they fill 16 registers */
#define ALIGNMENT 64
#if defined(__x86_64__) && !defined(NO_AVX2)
#define WITH_AVX2 1
#else
#define WITH_AVX2 0
#endif

#define INLINE static inline __attribute__((always_inline))

typedef double vec __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t mask __attribute__((vector_size(LANES * sizeof(double))));
typedef uint64_t bits __attribute__((vector_size(LANES * sizeof(double))));

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

enum { VECTORS = ROWS / LANES };

INLINE vec splat(double a) { return (vec){a, a, a, a}; }

INLINE vec select_where(mask where, vec yes, vec no) { return (vec)(((mask)yes & where) | ((mask)no & ~where)); }

INLINE double across(vec a) { return (a[0] + a[1]) + (a[2] + a[3]); }

/* exp(x) for x <= 0, to a few units in the last place; 0 below -708.  x = k ln 2 + t with |t| <= ln(2)/2, and exp(t) is
   Taylor's polynomial, whose remainder is t^13/13! < 2e-16. */
INLINE vec exponential(vec x) {
    const vec shift = splat(0x1.8p52); /* added and taken off again, it rounds to an integer */
    mask zero = x < splat(-708.0);
    x = select_where(zero, splat(0.0), x);
    vec shifted = x * splat(0x1.71547652b82fep0) + shift;
    vec k = shifted - shift;
    vec t = (x - k * splat(0x1.62e42fee00000p-1)) - k * splat(0x1.a39ef35793c76p-33);
    vec p = splat(1.0 / 479001600);
    static const double factorials[] = {39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1};
    for (int i = 0; i < 12; i++) p = p * t + splat(1.0 / factorials[i]);
    vec power = (vec)(((bits)shifted + 1023) << 52); /* the integer is in the last bits of `shifted` */
    return select_where(zero, splat(0.0), p * power);
}

/* Weighted log-densities theta.phi of a tile of `width` components for `rows` vectors of rows, Eq. (5). */
INLINE void log_densities(const vec *x, const vec *theta, Py_ssize_t dim, int width, int rows, vec *out) {
    vec sum[TILE][2];
    for (int l = 0; l < width; l++)
        for (int v = 0; v < rows; v++) sum[l][v] = theta[l];
    theta += width;
    for (Py_ssize_t i = 0; i < dim; i++, theta += width)
        for (int v = 0; v < rows; v++)
            for (int l = 0; l < width; l++) sum[l][v] += theta[l] * x[i * VECTORS + v];
    for (Py_ssize_t i = 0; i < dim; i++)
        for (Py_ssize_t j = i; j < dim; j++, theta += width) {
            vec phi[2];
            for (int v = 0; v < rows; v++) phi[v] = x[i * VECTORS + v] * x[j * VECTORS + v];
            for (int l = 0; l < width; l++)
                for (int v = 0; v < rows; v++) sum[l][v] += theta[l] * phi[v];
        }
    for (int l = 0; l < width; l++)
        for (int v = 0; v < rows; v++) out[l * VECTORS + v] = sum[l][v];
}

/* Add r_l . (x_i x_j) to the sums of a tile, for `count` neighbouring j; x_i is 1 where `xi` is NULL. */
INLINE void add_features(const vec *xi, const vec *xj, const vec *r, int width, int count, vec *sums, Py_ssize_t K) {
    vec sum[TILE][2];
    for (int l = 0; l < width; l++)
        for (int j = 0; j < count; j++) sum[l][j] = sums[l * K + j];
    for (int v = 0; v < VECTORS; v++) {
        vec phi[2];
        for (int j = 0; j < count; j++) phi[j] = xi ? xi[v] * xj[j * VECTORS + v] : xj[j * VECTORS + v];
        for (int l = 0; l < width; l++)
            for (int j = 0; j < count; j++) sum[l][j] += r[l * VECTORS + v] * phi[j];
    }
    for (int l = 0; l < width; l++)
        for (int j = 0; j < count; j++) sums[l * K + j] = sum[l][j];
}

INLINE void add_row(const vec *xi, const vec *xj, Py_ssize_t n, const vec *r, int width, vec *sums, Py_ssize_t K) {
    const int count = width <= TILE / 2 ? 2 : 1; /* narrow tiles leave registers for two */
    Py_ssize_t j = 0;
    for (; j + count <= n; j += count) add_features(xi, xj + j * VECTORS, r, width, count, sums + j, K);
    for (; j < n; j++) add_features(xi, xj + j * VECTORS, r, width, 1, sums + j, K);
}

INLINE void expect_tile(const vec *x, const vec *theta, Py_ssize_t dim, int width, vec *r) {
    const int rows = width <= TILE / 2 ? 2 : 1;
    for (int v = 0; v < VECTORS; v += rows) log_densities(x + v, theta, dim, width, rows, r + v);
}

INLINE void maximise_tile(const vec *x, const vec *r, Py_ssize_t dim, int width, vec *sums, Py_ssize_t K) {
    for (int l = 0; l < width; l++)
        for (int v = 0; v < VECTORS; v++) sums[l * K] += r[l * VECTORS + v];
    add_row(NULL, x, dim, r, width, sums + 1, K);
    sums += 1 + dim;
    for (Py_ssize_t i = 0; i < dim; sums += dim - i, i++)
        add_row(x + i * VECTORS, x + i * VECTORS, dim - i, r, width, sums, K);
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
INLINE double class_pass(const double *xi, Py_ssize_t rows, Size size, const double *theta, double *sums, Room room) {
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
#define EXPECT(width) expect_tile(room.x, room.theta + first * K, dim, width, room.r + first * VECTORS)
            FOR_WIDTH(tile_width(comps, first), EXPECT)
        }
        log_likelihood += normalise(room.r, comps, rows - at);
        if (sums)
            for (Py_ssize_t first = 0; first < comps; first += tile_width(comps, first)) {
#define MAXIMISE(width) maximise_tile(room.x, room.r + first * VECTORS, dim, width, room.sums + first * K, K)
                FOR_WIDTH(tile_width(comps, first), MAXIMISE)
            }
    }
    if (sums)
        for (Py_ssize_t i = 0; i < comps * K; i++) sums[i] = across(room.sums[i]);
    return log_likelihood;
}

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

/* Both are compiled twice: for processors with AVX2, and for all. */
typedef double ClassPass(const double *, Py_ssize_t, Size, const double *, double *, Room);
typedef int InvertAll(const double *, Py_ssize_t, Py_ssize_t, double *, double *, vec *);

#define VERSION(name, attributes)                                                                                   \
    attributes static double name##_pass(const double *xi, Py_ssize_t rows, Size size, const double *theta,        \
                                         double *sums, Room room) {                                                \
        return class_pass(xi, rows, size, theta, sums, room);                                                      \
    }                                                                                                               \
    attributes static int name##_invert(const double *matrices, Py_ssize_t count, Py_ssize_t width, double *inverses, \
                                        double *half_logs, vec *room) {                                            \
        return invert_all(matrices, count, width, inverses, half_logs, room);                                      \
    }

VERSION(plain, )
#if WITH_AVX2
VERSION(avx2, __attribute__((target("avx2,fma"))))
#endif

#if WITH_AVX2
#define BEST(name) (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? avx2_##name : plain_##name)
#else
#define BEST(name) (plain_##name)
#endif

/* Memory for vectors, to be freed by its first pointer. */
static void *make_vectors(size_t count, vec **first) {
    void *memory = malloc(sizeof(vec) * count + ALIGNMENT);
    *first = (vec *)(((uintptr_t)memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    return memory;
}

static void *make_room(Size size, Room *room) {
    size_t x = (size_t)(size.dim * VECTORS), r = (size_t)(size.comps * VECTORS), theta = (size_t)(size.comps * size.K);
    vec *at;
    void *memory = make_vectors(x + r + 2 * theta, &at);
    *room = (Room){at, at + x, at + x + r, at + x + r + theta};
    return memory;
}

/* Whether the arrays have the sizes they must have of each other, and every class lies within the blocks. */
static int fits(Size size, Py_ssize_t padded, const Py_buffer *xi, const Py_buffer *firsts, const Py_buffer *counts,
                const Py_buffer *theta, const Py_buffer *sums, const Py_buffer *log_likelihood) {
    const Py_ssize_t classes = firsts->len / (Py_ssize_t)sizeof(int64_t);
    const Py_ssize_t numbers = classes * padded * size.K * (Py_ssize_t)sizeof(double);
    if (size.dim < 1 || size.comps < 1 || padded < size.comps || counts->len != firsts->len ||
        log_likelihood->len != firsts->len || theta->len != numbers || (sums->len && sums->len != numbers))
        return 0;
    const Py_ssize_t blocks = xi->len / (size.dim * ROWS * (Py_ssize_t)sizeof(double));
    for (Py_ssize_t c = 0; c < classes; c++) {
        const int64_t first = ((const int64_t *)firsts->buf)[c], count = ((const int64_t *)counts->buf)[c];
        if (first < 0 || count < 0 || first > blocks || count > (blocks - first) * ROWS) return 0;
    }
    return 1;
}

static PyObject *sweep(PyObject *module, PyObject *arguments) {
    Py_buffer xi, firsts, counts, theta, sums, log_likelihood;
    Size size;
    Py_ssize_t padded; /* L' */
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*w*w*nnn", &xi, &firsts, &counts, &theta, &sums, &log_likelihood, &size.dim,
                          &size.comps, &padded))
        return NULL;
    size.K = (size.dim + 1) * (size.dim + 2) / 2;
    void *memory = NULL;
    if (!fits(size, padded, &xi, &firsts, &counts, &theta, &sums, &log_likelihood)) {
        PyErr_SetString(PyExc_ValueError, "the arrays' sizes do not go together");
    } else {
        Room room;
        memory = make_room(size, &room);
        if (!memory) PyErr_NoMemory();
        else {
            const Py_ssize_t classes = firsts.len / (Py_ssize_t)sizeof(int64_t);
            ClassPass *pass = BEST(pass);
            Py_BEGIN_ALLOW_THREADS
            for (Py_ssize_t c = 0; c < classes; c++) {
                const double *rows = (const double *)xi.buf + ((const int64_t *)firsts.buf)[c] * size.dim * ROWS;
                double *out = sums.len ? (double *)sums.buf + c * padded * size.K : NULL;
                ((double *)log_likelihood.buf)[c] =
                    pass(rows, (Py_ssize_t)((const int64_t *)counts.buf)[c], size,
                         (const double *)theta.buf + c * padded * size.K, out, room);
            }
            Py_END_ALLOW_THREADS
        }
    }
    free(memory);
    PyBuffer_Release(&xi);
    PyBuffer_Release(&firsts);
    PyBuffer_Release(&counts);
    PyBuffer_Release(&theta);
    PyBuffer_Release(&sums);
    PyBuffer_Release(&log_likelihood);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *inverses(PyObject *module, PyObject *arguments) {
    Py_buffer matrices, out, half_logs;
    Py_ssize_t width;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*w*w*n", &matrices, &out, &half_logs, &width)) return NULL;
    const Py_ssize_t count = half_logs.len / (Py_ssize_t)sizeof(double);
    int found = 0;
    void *memory = NULL;
    if (width < 1 || matrices.len != count * width * width * (Py_ssize_t)sizeof(double) ||
        out.len != count * (width * (width + 1) / 2) * (Py_ssize_t)sizeof(double)) {
        PyErr_SetString(PyExc_ValueError, "the arrays' sizes do not go together");
    } else {
        vec *room;
        memory = make_vectors((size_t)(2 * width * width), &room);
        if (!memory) PyErr_NoMemory();
        else {
            InvertAll *invert_them = BEST(invert);
            Py_BEGIN_ALLOW_THREADS
            found = invert_them(matrices.buf, count, width, out.buf, half_logs.buf, room);
            Py_END_ALLOW_THREADS
        }
    }
    free(memory);
    PyBuffer_Release(&matrices);
    PyBuffer_Release(&out);
    PyBuffer_Release(&half_logs);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(found);
}

static PyMethodDef methods[] = {
    {"sweep", sweep, METH_VARARGS,
     "sweep(xi, firsts, counts, theta, sums, log_likelihood, d, L, L')\n\n"
     "Fill sums (C, L', K), unless it is empty, and log_likelihood (C,) of classes of `counts` rows whose blocks in\n"
     "xi (B, d, ROWS) begin at `firsts`: theta (C, L', K).  Floats are double precision, integers have 64 bits."},
    {"inverses", inverses, METH_VARARGS,
     "inverses(matrices, inverses, half_logs, width)\n\n"
     "Invert positive definite matrices (N, width, width): their inverses' upper triangles, row by row, (N, K), and half\n"
     "the logarithms of their determinants (N,).  Returns whether all have inverses; if not, the answer is nonsense."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModule_Create(&definition); }
