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
