/* What a fit spends its time on, besides large matrix products, in C.  Where this could not be compiled, NumPy and
   SciPy do the same: see whoever uses `kernel.py`.  Each loop is compiled for x86 processors with AVX2 and with AVX-512,
   on all of which it gives the same bits, and for any other. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000 /* one build serves Python 3.11 and all later ones */
#include <Python.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 128 /* of a block, as in blocks.py */

#include "_vectors.h"

#include "_inverses.h"
#include "_lanczos.h"
#include "_rows.h"
#include "_sweep.h"

#define ALIGNMENT 64
#if defined(__x86_64__) && !defined(NO_AVX2)
#define WITH_AVX2 1
#else
#define WITH_AVX2 0
#endif
#if WITH_AVX2 && !defined(NO_AVX512)
#define WITH_AVX512 1 /* for its registers; vectors stay as long as they are, so that sums come out the same */
#else
#define WITH_AVX512 0
#endif

typedef double ClassPass(const double *, Py_ssize_t, Size, const double *, double *, Room);
typedef int InvertAll(const double *, Py_ssize_t, Py_ssize_t, double *, double *, vec *);
typedef void GatherRows(const float *, const int64_t *, Py_ssize_t, Py_ssize_t, float *);
typedef void ShiftRows(float *, Py_ssize_t, Py_ssize_t, const float *, float, double *);
typedef void ProjectRows(const float *, Py_ssize_t, Py_ssize_t, const float *, Py_ssize_t, float *);
typedef Py_ssize_t LanczosSteps(const float *, Py_ssize_t, float *, double *, double *, Py_ssize_t, Py_ssize_t, float *);

#define VERSION(name, registers, attributes)                                                                            \
    attributes static double name##_pass(const double *xi, Py_ssize_t rows, Size size, const double *theta,        \
                                         double *sums, Room room) {                                                \
        return class_pass(xi, rows, size, theta, sums, room, registers);                                           \
    }                                                                                                               \
    attributes static int name##_invert(const double *matrices, Py_ssize_t count, Py_ssize_t width, double *inverses, \
                                        double *half_logs, vec *room) {                                            \
        return invert_all(matrices, count, width, inverses, half_logs, room);                                      \
    }                                                                                                               \
    attributes static Py_ssize_t name##_lanczos(const float *A, Py_ssize_t n, float *V, double *diagonal,          \
                                                double *beside, Py_ssize_t first, Py_ssize_t last, float *c) {      \
        return lanczos_steps(A, n, V, diagonal, beside, first, last, c);                                           \
    }                                                                                                               \
    attributes static void name##_gather(const float *rows, const int64_t *places, Py_ssize_t n, Py_ssize_t features, \
                                         float *out) {                                                             \
        gather_rows(rows, places, n, features, out);                                                                \
    }                                                                                                               \
    attributes static void name##_shift(float *rows, Py_ssize_t n, Py_ssize_t features, const float *point,         \
                                        float weight, double *sum) {                                                \
        shift_rows(rows, n, features, point, weight, sum);                                                          \
    }                                                                                                               \
    attributes static void name##_project(const float *rows, Py_ssize_t blocks, Py_ssize_t features, const float *W, \
                                          Py_ssize_t dim, float *out) {                                             \
        project_rows(rows, blocks, features, W, dim, out);                                                          \
    }

VERSION(plain, 16, )
#if WITH_AVX2
VERSION(avx2, 16, __attribute__((target("avx2,fma"))))
#endif
#if WITH_AVX512
VERSION(avx512, 32, __attribute__((target("avx512f,avx512vl,avx512dq,avx2,fma"))))
#endif

#define HAS(feature) __builtin_cpu_supports(feature)
#if WITH_AVX512
#define OR_AVX512(name, other) (HAS("avx512vl") && HAS("avx512dq") ? avx512_##name : (other))
#else
#define OR_AVX512(name, other) (other)
#endif
#if WITH_AVX2
#define BEST(name) (HAS("avx2") && HAS("fma") ? OR_AVX512(name, avx2_##name) : plain_##name)
#else
#define BEST(name) (plain_##name)
#endif

static void refuse(void) { PyErr_SetString(PyExc_ValueError, "the arrays' sizes do not go together"); }

/* Let the arrays go; return None, or NULL after an error. */
#define FINISH(...) finish((Py_buffer *[]){__VA_ARGS__, NULL})
static PyObject *finish(Py_buffer **arrays) {
    for (; *arrays; arrays++) PyBuffer_Release(*arrays);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

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
        refuse();
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
    return FINISH(&xi, &firsts, &counts, &theta, &sums, &log_likelihood);
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
        refuse();
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
    PyObject *none = FINISH(&matrices, &out, &half_logs);
    Py_XDECREF(none);
    return none ? PyBool_FromLong(found) : NULL;
}

static PyObject *lanczos(PyObject *module, PyObject *arguments) {
    Py_buffer A, V, diagonal, beside;
    Py_ssize_t first, last, done = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*w*w*w*nn", &A, &V, &diagonal, &beside, &first, &last)) return NULL;
    const Py_ssize_t n = V.len / (last > 0 ? last + 1 : 1) / (Py_ssize_t)sizeof(float);
    float *room = NULL;
    if (first < 0 || last < 1 || first > last || V.len != (last + 1) * n * (Py_ssize_t)sizeof(float) ||
        A.len != n * n * (Py_ssize_t)sizeof(float) || diagonal.len != last * (Py_ssize_t)sizeof(double) ||
        beside.len != diagonal.len) {
        refuse();
    } else {
        room = malloc(sizeof(float) * (size_t)last);
        if (!room) PyErr_NoMemory();
        else {
            LanczosSteps *steps = BEST(lanczos);
            Py_BEGIN_ALLOW_THREADS
            done = steps(A.buf, n, V.buf, diagonal.buf, beside.buf, first, last, room);
            Py_END_ALLOW_THREADS
        }
    }
    free(room);
    PyObject *none = FINISH(&A, &V, &diagonal, &beside);
    Py_XDECREF(none);
    return none ? PyLong_FromSsize_t(done) : NULL;
}

static PyObject *gather(PyObject *module, PyObject *arguments) {
    Py_buffer rows, places, out;
    Py_ssize_t features;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*w*n", &rows, &places, &out, &features)) return NULL;
    const Py_ssize_t row = (features > 0 ? features : 1) * (Py_ssize_t)sizeof(float);
    const Py_ssize_t n = places.len / (Py_ssize_t)sizeof(int64_t), all = rows.len / row;
    int right = features > 0 && rows.len == all * row && out.len == n * row;
    for (Py_ssize_t i = 0; right && i < n; i++)
        right = ((const int64_t *)places.buf)[i] >= 0 && ((const int64_t *)places.buf)[i] < all;
    if (!right) {
        refuse();
    } else {
        GatherRows *gather_them = BEST(gather);
        Py_BEGIN_ALLOW_THREADS
        gather_them(rows.buf, places.buf, n, features, out.buf);
        Py_END_ALLOW_THREADS
    }
    return FINISH(&rows, &places, &out);
}

static PyObject *shift(PyObject *module, PyObject *arguments) {
    Py_buffer rows, point, sum;
    float weight;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*y*fw*", &rows, &point, &weight, &sum)) return NULL;
    const Py_ssize_t features = sum.len / (Py_ssize_t)sizeof(double);
    const Py_ssize_t row = features * (Py_ssize_t)sizeof(float);
    if (features < 1 || sum.len != 2 * row || point.len != row || rows.len % row) {
        refuse();
    } else {
        ShiftRows *shift_them = BEST(shift);
        Py_BEGIN_ALLOW_THREADS
        shift_them(rows.buf, rows.len / row, features, point.buf, weight, sum.buf);
        Py_END_ALLOW_THREADS
    }
    return FINISH(&rows, &point, &sum);
}

static PyObject *project(PyObject *module, PyObject *arguments) {
    Py_buffer rows, W, out;
    Py_ssize_t features;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*w*n", &rows, &W, &out, &features)) return NULL;
    const Py_ssize_t row = (features > 0 ? features : 1) * (Py_ssize_t)sizeof(float);
    const Py_ssize_t blocks = rows.len / (ROWS * row), dim = W.len / row;
    if (features < 1 || rows.len != blocks * ROWS * row || W.len != dim * row ||
        out.len != blocks * dim * ROWS * (Py_ssize_t)sizeof(float)) {
        refuse();
    } else {
        ProjectRows *project_them = BEST(project);
        Py_BEGIN_ALLOW_THREADS
        project_them(rows.buf, blocks, features, W.buf, dim, out.buf);
        Py_END_ALLOW_THREADS
    }
    return FINISH(&rows, &W, &out);
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
    {"lanczos", lanczos, METH_VARARGS,
     "lanczos(A, V, diagonal, beside, first, last)\n\n"
     "Make steps of Lanczos' method on a symmetric matrix (n, n): V (last + 1, n), both in single precision, has unit\n"
     "vectors in rows 0 to `first`; diagonal and beside (last,) are in double precision.  Returns at which step it ended,\n"
     "before `last` where the matrix does not lead out of the vectors' span."},
    {"gather", gather, METH_VARARGS,
     "gather(rows, places, out, D)\n\n"
     "Fill out (n, D) with those of the rows (N, D), in single precision, that are at the places (n,), 64-bit integers."},
    {"shift", shift, METH_VARARGS,
     "shift(rows, point, weight, sum)\n\n"
     "Take the point (D,) off the rows (n, D), both in single precision, and add what they then are, times the weight, to\n"
     "the sum (D,), in double precision."},
    {"project", project, METH_VARARGS,
     "project(rows, W, out, D)\n\n"
     "Fill out (B, d, ROWS) with the products of rows (B * ROWS, D) and directions W (d, D), all in single precision."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModule_Create(&definition); }
