/* Vectors of numbers in the compiler's own types: they become whatever the processor has. */

#include <stdint.h>

#if !defined(__GNUC__)
#error "needs the vector types of GCC or Clang"
#endif

#define INLINE static inline __attribute__((always_inline))
#define LANES 4

typedef double vec __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t mask __attribute__((vector_size(LANES * sizeof(double))));
typedef uint64_t bits __attribute__((vector_size(LANES * sizeof(double))));

INLINE vec splat(double a) { return (vec){a, a, a, a}; }

INLINE vec select_where(mask where, vec yes, vec no) { return (vec)(((mask)yes & where) | ((mask)no & ~where)); }

INLINE double across(vec a) { return (a[0] + a[1]) + (a[2] + a[3]); }

/* The same in single precision. */

#define WIDE 8

typedef float wide __attribute__((vector_size(WIDE * sizeof(float))));
typedef float part __attribute__((vector_size(WIDE * sizeof(float)), aligned(sizeof(float)), may_alias)); /* in memory */

INLINE float across_wide(wide a) { return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7])); }

/* A vector that begins with `count` numbers from memory and goes on with zeros, and the way back.  The last numbers of a
   row are worked on like this because compilers sum plain loops now in one order and now in another. */
INLINE wide load_some(const float *from, Py_ssize_t count) {
    wide a = {0};
    memcpy(&a, from, sizeof(float) * (size_t)count);
    return a;
}

INLINE void store_some(float *to, Py_ssize_t count, wide a) { memcpy(to, &a, sizeof(float) * (size_t)count); }

INLINE Py_ssize_t at_most_wide(Py_ssize_t count) { return count < WIDE ? count : WIDE; }
