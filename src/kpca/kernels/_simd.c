/* The profiles of kernels, in place on an array: plain loops that the compiler vectorises for every kind of CPU.

   The file reads itself once per kind of CPU (LEVEL) and once per precision, so every loop exists for each of them and
   the best that this CPU has is taken at run time. Products and sums are fused only where FMA() says so, never by the
   compiler: levels that have FMA give the same bits.

   Errors stay below 2 ulp (float64) and 1.5 ulp (float32). Where a profile magnifies the rounding of its own argument,
   as exp(-u) does by a factor u, the argument is carried as a sum of two numbers, high + low. */
#ifndef LEVEL

#define PY_SSIZE_T_CLEAN
#ifdef STABLE_INTERFACE
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PARAMETERS 4
typedef void (*Loop)(void *, Py_ssize_t, const double *);
typedef struct {
    const char *name;
    int parameters;
    Loop loops[2]; /* float32, float64 */
} Profile;
typedef struct { /* what else is done with the numbers of a tile, by precision; from `pack` on with vectors of `bytes` */
    Loop not_positive;
    void (*add)(double *, Py_ssize_t, const void *, Py_ssize_t, Py_ssize_t, Py_ssize_t);
    double (*centre)(const void *, int, const double *, const double *, void *, Py_ssize_t, int);
    int bytes;
    void (*pack)(const void *, Py_ssize_t, Py_ssize_t, Py_ssize_t, void *);
    void (*arguments)(const void *, Py_ssize_t, const void *, Py_ssize_t, int, int, void *, Py_ssize_t, Py_ssize_t);
    void (*from_left)(const void *, Py_ssize_t, Py_ssize_t, const void *, Py_ssize_t, void *);
    void (*from_right)(const void *, Py_ssize_t, Py_ssize_t, const void *, Py_ssize_t, Py_ssize_t, void *, Py_ssize_t, int);
    double (*moments)(const void *, Py_ssize_t, const void *, double, double *, void *, int);
} Tools;

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-thread-jumps") /* which makes two of a choice between numbers: a fifth slower as a vector */
#endif
#if defined(__GNUC__) || defined(__clang__)
#define INLINE static inline __attribute__((always_inline))
#define SQRT_f32 __builtin_sqrtf
#define SQRT_f64 __builtin_sqrt
#else /* MSVC compiles one level, without FMA */
#define INLINE static __forceinline
#define SQRT_f32 sqrtf
#define SQRT_f64 sqrt
#endif

/* What differs between the precisions; OF(NAME) is that of the one at hand. */
#define JOIN2(a, b) a##_##b
#define JOIN(a, b) JOIN2(a, b)
#define OF(name) JOIN(name, PRECISION)
#define REAL_f32 float
#define REAL_f64 double
#define INT_f32 int32_t
#define INT_f64 int64_t
#define UINT_f32 uint32_t
#define UINT_f64 uint64_t
#define DOUBLE_f32 0
#define DOUBLE_f64 1
#define FMA_f32 __builtin_fmaf
#define FMA_f64 __builtin_fma
#define MANTISSA_f32 23
#define MANTISSA_f64 52
#define BIAS_f32 127
#define BIAS_f64 1023
#define ROUNDER_f32 12582912.0f /* 1.5 * 2^23: what is added to it becomes whole, and lies in its lowest bits */
#define ROUNDER_f64 6755399441055744.0
#define LOG2E 1.4426950408889634
#define LN2_HIGH_f32 0.693359375f /* few bits: exact times a whole number */
#define LN2_HIGH_f64 6.93147180369123816490e-01
#define LN2_LOW_f32 -2.12194440e-4f
#define LN2_LOW_f64 1.90821492927058770002e-10
#define LOWEST_f32 -130.0f /* below this exp is 0 even times u^2, above the other it is infinite */
#define LOWEST_f64 -800.0
#define HIGHEST_f32 89.0f
#define HIGHEST_f64 710.0
#define DENORMAL_f32 -86.0f /* below this exp may be a denormal */
#define DENORMAL_f64 -707.0
#define SATURATED_f32 -20.0f /* below this expm1 is -1 */
#define SATURATED_f64 -40.0
#define TINY_f32 0x1p-26f /* up to this expm1 and tanh change nothing */
#define TINY_f64 0x1p-54
#define SPLITTER_f32 4097.0f /* halves the digits of a number, without FMA */
#define SPLITTER_f64 134217729.0
#define LARGE_f32 1e34f
#define LARGE_f64 1e290
/* Vectors of so many bytes, for products of tiles */
#define VECTOR_f32_16 float32x4_t
#define VECTOR_f64_16 float64x2_t
#define VECTOR_f32_32 __m256
#define VECTOR_f64_32 __m256d
#define VECTOR_f32_64 __m512
#define VECTOR_f64_64 __m512d
#define LOAD_f32_16 vld1q_f32
#define LOAD_f64_16 vld1q_f64
#define LOAD_f32_32 _mm256_loadu_ps
#define LOAD_f64_32 _mm256_loadu_pd
#define LOAD_f32_64 _mm512_loadu_ps
#define LOAD_f64_64 _mm512_loadu_pd
#define STORE_f32_16 vst1q_f32
#define STORE_f64_16 vst1q_f64
#define STORE_f32_32 _mm256_storeu_ps
#define STORE_f64_32 _mm256_storeu_pd
#define STORE_f32_64 _mm512_storeu_ps
#define STORE_f64_64 _mm512_storeu_pd
#define EACH_f32_16 vdupq_n_f32
#define EACH_f64_16 vdupq_n_f64
#define EACH_f32_32 _mm256_set1_ps
#define EACH_f64_32 _mm256_set1_pd
#define EACH_f32_64 _mm512_set1_ps
#define EACH_f64_64 _mm512_set1_pd
#define PLUS_PRODUCT_f32_16(a, b, c) vfmaq_f32(c, a, b)
#define PLUS_PRODUCT_f64_16(a, b, c) vfmaq_f64(c, a, b)
#define PLUS_PRODUCT_f32_32 _mm256_fmadd_ps
#define PLUS_PRODUCT_f64_32 _mm256_fmadd_pd
#define PLUS_PRODUCT_f32_64 _mm512_fmadd_ps
#define PLUS_PRODUCT_f64_64 _mm512_fmadd_pd
/* the smaller one; if one is NaN, the second */
#define LEAST_f32_16(a, b) vbslq_f32(vcltq_f32(a, b), a, b)
#define LEAST_f64_16(a, b) vbslq_f64(vcltq_f64(a, b), a, b)
#define LEAST_f32_32 _mm256_min_ps
#define LEAST_f64_32 _mm256_min_pd
#define LEAST_f32_64 _mm512_min_ps
#define LEAST_f64_64 _mm512_min_pd
/* Horner's rule for a list of coefficients; spelled out, because compilers do not vectorise around an inner loop */
#define H1(x, a) a
#define H2(x, a, ...) AT(fused)(x, H1(x, __VA_ARGS__), a)
#define H3(x, a, ...) AT(fused)(x, H2(x, __VA_ARGS__), a)
#define H4(x, a, ...) AT(fused)(x, H3(x, __VA_ARGS__), a)
#define H5(x, a, ...) AT(fused)(x, H4(x, __VA_ARGS__), a)
#define H6(x, a, ...) AT(fused)(x, H5(x, __VA_ARGS__), a)
#define H7(x, a, ...) AT(fused)(x, H6(x, __VA_ARGS__), a)
#define H8(x, a, ...) AT(fused)(x, H7(x, __VA_ARGS__), a)
#define H9(x, a, ...) AT(fused)(x, H8(x, __VA_ARGS__), a)
#define H10(x, a, ...) AT(fused)(x, H9(x, __VA_ARGS__), a)
#define H11(x, a, ...) AT(fused)(x, H10(x, __VA_ARGS__), a)
#define H12(x, a, ...) AT(fused)(x, H11(x, __VA_ARGS__), a)
#define H13(x, a, ...) AT(fused)(x, H12(x, __VA_ARGS__), a)
#define H14(x, a, ...) AT(fused)(x, H13(x, __VA_ARGS__), a)
#define H15(x, a, ...) AT(fused)(x, H14(x, __VA_ARGS__), a)
#define H16(x, a, ...) AT(fused)(x, H15(x, __VA_ARGS__), a)
#define H17(x, a, ...) AT(fused)(x, H16(x, __VA_ARGS__), a)

/* (e^r - 1 - r) / r^2 for |r| <= log(2) / 2; (1 - f) / u^2 of Matern 3/2 and 5/2 about the middle of their range */
#define EXP_f32(x) \
    H6(x, 0.5000000046f, 0.1666666682f, 0.04166635417f, 0.008333272959f, 0.001394106575f, 0.0001991421218f)
#define EXP_f64(x) \
    H11(x, 0.4999999999999999999, 0.1666666666666667664, 0.04166666666666670145, 0.008333333333321565363, \
      0.001388888888886676461, 0.000198412698863230106, 0.00002480158736074099593, 2.755724398443374608e-6, \
      2.755724257705810461e-7, 2.510912363481846601e-8, 2.092450539228860733e-9)
#define MATERN3_MIDDLE 0.3081929470279542445
#define MATERN3(x) \
    H17(x, -3.98496e-19, -0.1920257884198583757, 0.06914054167904027999, -0.01794617348695722952, \
      0.003667702881539009864, -0.000619807357784474258, 0.000089391903329526308, -0.0000112515371526642383, \
      1.256718667445661162e-6, -1.261846486152937838e-7, 1.150873955536869924e-8, -9.616141119496498168e-10, \
      7.413378500199213391e-11, -5.30496750736960198e-12, 3.54255403119236198e-13, -2.234341341124322407e-14, \
      1.303201433245399757e-15)
#define MATERN5_MIDDLE 0.1319314935679295555
#define MATERN5(x) \
    H17(x, 7.98317e-18, -0.03918751159257323058, -0.0007257855656104793222, 0.003957557901764462012, \
      -0.00157001792792943641, 0.0003930318896887619748, -0.00007501932246376744413, 0.00001174290497293696288, \
      -1.567967746327119549e-6, 1.83135800879015361e-7, -1.904403503068790671e-8, 1.786652548304290625e-9, \
      -1.527921754251373011e-10, 1.200663126745639295e-11, -8.738548826864802272e-13, 6.068631923729199981e-14, \
      -3.796581182840780399e-15)
/* (2 artanh z - 2 z - 2/3 z^3) / z^5 in powers of z^2, for the logarithm of numbers between 1/sqrt2 and sqrt2 */
#define LOG_TAIL(x) \
    H8(x, 0.3999999999999999982, 0.2857142857142937318, 0.2222222222165176148, 0.1818181833630457608, \
      0.1538459486712995958, 0.1333480978924650466, 0.1170610199741317918, 0.1172456447996954223)
#define FAR 1e6 /* of u^2: e^-u is 0 well before u = 1000, and the cap keeps 0 * infinity out */

#if (defined(__GNUC__) || defined(__clang__)) && (defined(__x86_64__) || defined(__i386__))
#define X86 1
#include <immintrin.h>
#define LEVEL v2
#define TARGET __attribute__((target("sse4.2")))
#define FUSED 0
#define BYTES 0
#include "_simd.c"
#define LEVEL v3
#define BYTES 32
#define TARGET __attribute__((target("avx2,fma")))
#define FUSED 1
#include "_simd.c"
#define LEVEL v4
#define BYTES 64
#ifdef __clang__
#define TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#define FUSED 1
#include "_simd.c"
#else
#define X86 0
#define LEVEL baseline
#define TARGET
#ifdef __aarch64__
#include <arm_neon.h>
#define BYTES 16
#else
#define BYTES 0
#endif
#if defined(__FP_FAST_FMA) || defined(__aarch64__)
#define FUSED 1
#else
#define FUSED 0
#endif
#include "_simd.c"
#endif

/* -- The module: levels() lists what this CPU can run, best first; apply(level, name, array, *parameters) ---------- */

typedef struct {
    const char *name;
    const Profile *profiles;
    const Tools *tools;
} Level;

static Level levels[4];
static int level_count = 0;

static void find_levels(void) {
#if X86
    __builtin_cpu_init();
    int v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        levels[level_count++] = (Level){"v4", profiles_v4, tools_v4};
    if (v3) levels[level_count++] = (Level){"v3", profiles_v3, tools_v3};
    if (__builtin_cpu_supports("sse4.2")) levels[level_count++] = (Level){"v2", profiles_v2, tools_v2};
#else
    levels[level_count++] = (Level){"baseline", profiles_baseline, tools_baseline};
#endif
}

static PyObject *level_names(PyObject *module, PyObject *unused) {
    PyObject *names = PyTuple_New(level_count);
    for (int i = 0; names && i < level_count; i++) {
        PyObject *name = PyUnicode_FromString(levels[i].name);
        if (!name || PyTuple_SetItem(names, i, name)) Py_CLEAR(names);
    }
    return names;
}

static const Level *level_of(const char *name) {
    for (int i = 0; i < level_count; i++)
        if (!strcmp(name, levels[i].name)) return &levels[i];
    PyErr_Format(PyExc_ValueError, "this CPU has no level %s", name);
    return NULL;
}

static const Profile *profile_of(const Level *level, const char *name) {
    const Profile *profile = level->profiles;
    while (profile->name && strcmp(name, profile->name)) profile++;
    if (profile->name) return profile;
    PyErr_Format(PyExc_ValueError, "there is no profile %s", name);
    return NULL;
}

/* Apply a loop to the runs of contiguous numbers of an array of at most two dimensions. */
static void run(Loop loop, const Py_buffer *view, const double *p) {
    Py_ssize_t rows = view->ndim == 2 ? view->shape[0] : 1, length = view->ndim ? view->shape[view->ndim - 1] : 1;
    if (view->ndim < 2 || view->strides[0] == length * view->itemsize)
        loop(view->buf, rows * length, p);
    else
        for (Py_ssize_t i = 0; i < rows; i++) loop((char *)view->buf + i * view->strides[0], length, p);
}

static PyObject *apply(PyObject *module, PyObject *args) {
    const char *level, *name;
    PyObject *array;
    double p[MOST_PARAMETERS] = {0};
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "ssO|dddd:apply", &level, &name, &array, p, p + 1, p + 2, p + 3)) return NULL;
    const Level *found = level_of(level);
    const Profile *profile = found ? profile_of(found, name) : NULL;
    if (!profile) return NULL;
    if (PyTuple_Size(args) != 3 + profile->parameters)
        return PyErr_Format(PyExc_TypeError, "%s takes %d parameters", name, profile->parameters);
    if (PyObject_GetBuffer(array, &view, PyBUF_STRIDES | PyBUF_FORMAT | PyBUF_WRITABLE)) return NULL;
    int wide = view.format && !strcmp(view.format, "d");
    int fits = (wide || (view.format && !strcmp(view.format, "f"))) && view.ndim <= 2 &&
               (view.ndim == 0 || view.shape[view.ndim - 1] <= 1 || view.strides[view.ndim - 1] == view.itemsize);
    if (!fits) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "an array of float32 or float64 with contiguous rows is needed");
        return NULL;
    }
    if (view.len < 16384) /* over before another thread has started */
        run(profile->loops[wide], &view, p);
    else {
        Py_BEGIN_ALLOW_THREADS
        run(profile->loops[wide], &view, p);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

/* -- A row of tiles times vectors --------------------------------------------------------------------------------- */

typedef struct {
    char *data;
    int rows, columns, step; /* of a vector one row; numbers from row to row */
} Matrix;
/* Rows that are worked on at a time, so that all of it stays in the cache: a multiple of all heights of products */
enum { ROWS = 48 };
enum { L, R, SCRATCH, TILES, DIAGONAL, INNER, ACROSS, LEFT, RIGHT, ROW_WEIGHTS, WEIGHTS, MATRICES };
typedef struct {
    Matrix of[MATRICES];
    int wide, width, filled, bounded, radial;
    Loop profile;
    const double *p;
    const Tools *tools;
} Strip;

static Py_ssize_t up_to(Py_ssize_t count, Py_ssize_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
}

/* The numbers of SCRATCH: columns of R in panels, some rows of a tile, and their products */
static Py_ssize_t scratch_numbers(const Strip *s, Py_ssize_t *tile, Py_ssize_t *products) {
    Py_ssize_t columns = s->of[R].rows < s->width ? s->of[R].rows : s->width;
    *tile = up_to(columns, 2 * s->tools->bytes / (s->wide ? 8 : 4)) * s->of[R].columns;
    *products = *tile + ROWS * columns;
    return *products + ROWS * s->of[INNER].columns;
}

/* Fill what is to be filled of the tiles of L against R, `width` columns each, and multiply them: LEFT (rows x b)
   = T V, summed up over the tiles in float64, and RIGHT (b x columns) = V' T for the rows of V that belong to L. With
   weights w there is one more column, T w, and one more row, w' T, and the sum of the w w' t^2 is returned. With a
   DIAGONAL the first tile is a square on it, and is multiplied from the left alone. */
static double strip(const Strip *s) {
    const Matrix *l = &s->of[L], *r = &s->of[R], *V = &s->of[INNER], *W = &s->of[ACROSS];
    const Matrix *left = &s->of[LEFT], *right = &s->of[RIGHT];
    const double *diagonal = (const double *)s->of[DIAGONAL].data;
    int moments = s->of[WEIGHTS].data != NULL, rows = l->rows, b = left->columns - moments, item = s->wide ? 8 : 4;
    Py_ssize_t tile_at, products_at;
    scratch_numbers(s, &tile_at, &products_at);
    char *panels = s->of[SCRATCH].data, *products = panels + products_at * item;
    double squares = 0;
    memset(left->data, 0, 8 * (size_t)left->columns * (size_t)rows);
    for (int start = 0; start < r->rows; start += s->width) {
        int columns = r->rows - start < s->width ? r->rows - start : s->width, own = diagonal && !start;
        char *below = right->data ? right->data + (Py_ssize_t)start * item : NULL;
        if (s->filled < 1)
            s->tools->pack(r->data + (Py_ssize_t)start * r->step * item, r->step, columns, r->columns, panels);
        for (int j = 0; below && own && j < right->rows; j++)
            memset(below + (Py_ssize_t)j * right->step * item, 0, (size_t)columns * (size_t)item);
        for (int top = 0; top < rows; top += ROWS) {
            int height = rows - top < ROWS ? rows - top : ROWS;
            Py_ssize_t place = (Py_ssize_t)rows * start + (Py_ssize_t)top * columns;
            char *T = s->filled < 0 ? panels + tile_at * item : s->of[TILES].data + place * item;
            if (s->filled < 1) {
                s->tools->arguments(l->data + (Py_ssize_t)top * l->step * item, l->step, panels, l->columns, s->radial,
                                    s->bounded, T, height, columns);
                s->profile(T, (Py_ssize_t)height * columns, s->p);
                for (int i = 0; own && i < height; i++) {
                    Py_ssize_t at = (Py_ssize_t)i * columns + top + i;
                    if (s->wide)
                        ((double *)T)[at] = diagonal[top + i];
                    else
                        ((float *)T)[at] = (float)diagonal[top + i];
                }
            }
            if (b) {
                double *out = (double *)left->data + (Py_ssize_t)top * left->step;
                s->tools->from_left(T, height, columns, V->data + (Py_ssize_t)start * V->step * item, V->step, products);
                s->tools->add(out, left->step, products, V->step, height, b);
                if (below && !own)
                    s->tools->from_right(T, height, columns, W->data + (Py_ssize_t)top * item, W->step, W->rows, below,
                                         right->step, !top);
            }
            for (int i = 0; moments && i < height; i++) {
                const char *w = s->of[ROW_WEIGHTS].data + (Py_ssize_t)(top + i) * item;
                double weight = s->wide ? *(const double *)w : *(const float *)w;
                char *last = below + (Py_ssize_t)W->rows * right->step * item;
                squares += (own ? 1 : 2) * weight *
                           s->tools->moments(T + (Py_ssize_t)i * columns * item, columns,
                                             s->of[WEIGHTS].data + (Py_ssize_t)start * item, weight,
                                             (double *)left->data + (Py_ssize_t)(top + i) * left->step + b,
                                             own ? NULL : last, !top && !i);
            }
        }
    }
    return squares;
}

/* Read a matrix or vector of contiguous rows; `format` 'f', 'd', or 0 for either */
static int take(PyObject *array, Py_buffer *view, Matrix *m, char format, int writable) {
    if (PyObject_GetBuffer(array, view, PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0))) return 0;
    const char *has = view->format ? view->format : "B";
    int last = view->ndim - 1;
    Py_ssize_t step = view->ndim == 2 ? view->strides[0] / view->itemsize : 1;
    if ((view->ndim != 1 && view->ndim != 2) || has[1] || (format ? *has != format : *has != 'f' && *has != 'd') ||
        (view->shape[last] > 1 && view->strides[last] != view->itemsize) ||
        (view->ndim == 2 && view->shape[0] > 1 && step < view->shape[1]) ||
        view->shape[0] > INT32_MAX || view->shape[last] > INT32_MAX || step > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "arrays of one precision with contiguous rows are needed");
        return 0;
    }
    m->data = view->buf;
    m->rows = view->ndim == 2 ? (int)view->shape[0] : 1;
    m->columns = (int)view->shape[last];
    m->step = view->ndim == 2 && view->shape[0] > 1 ? (int)step : m->columns;
    if (m->step < 1) m->step = 1;
    return 1;
}

static int fits(const Strip *s) {
    const Matrix *of = s->of;
    int rows = of[L].rows, columns = of[R].rows, moments = of[WEIGHTS].data != NULL, lanes = s->tools->bytes / (s->wide ? 8 : 4);
    int b = of[LEFT].columns - moments, c = of[ACROSS].data ? of[ACROSS].rows : 0;
    int first = columns < s->width ? columns : s->width;
    Py_ssize_t ignored;
    int tiles = of[L].columns == of[R].columns && of[L].columns > 2 * s->radial && of[SCRATCH].rows == 1 &&
                of[SCRATCH].columns >= scratch_numbers(s, &ignored, &ignored) &&
                (s->filled < 0 || (of[TILES].rows == 1 && of[TILES].columns >= (Py_ssize_t)rows * columns)) &&
                (!of[DIAGONAL].data || (first == rows && of[DIAGONAL].columns == rows));
    int from_left = of[INNER].rows == columns && (!of[INNER].columns || of[INNER].step == of[INNER].columns) && b >= 0 &&
                    b <= of[INNER].columns && of[INNER].columns % lanes == 0 && of[LEFT].rows == rows &&
                    (rows == 1 || !of[LEFT].columns || of[LEFT].step == of[LEFT].columns);
    int from_right = !of[RIGHT].data || (of[RIGHT].rows == c + moments && of[RIGHT].columns == columns &&
                                         of[ACROSS].data && c >= b && c % 8 == 0 && of[ACROSS].columns == rows);
    int weights = !moments || (of[WEIGHTS].columns == columns && of[ROW_WEIGHTS].data &&
                               of[ROW_WEIGHTS].columns == rows && of[RIGHT].data);
    return tiles && from_left && from_right && weights;
}

/* multiply(level, name, parameters, bounded, radial, width, filled, *the eleven matrices), some of which may be None.
   `filled` is -1 if the tiles are not to be kept, 0 to write them to TILES, one after the other, and 1 if that was done
   before. With `radial` the last two columns of L are -|x|^2 and 1, those of R 1 and -|y|^2. */
static PyObject *multiply(PyObject *module, PyObject *args) {
    const char *level, *name;
    PyObject *parameters, *arrays[MATRICES];
    Py_buffer views[MATRICES];
    double p[MOST_PARAMETERS] = {0}, squares = 0;
    Strip s = {0};
    int taken = 0, ready = 0;
    if (!PyArg_ParseTuple(args, "ssO!ppiiOOOOOOOOOOO:multiply", &level, &name, &PyTuple_Type, &parameters, &s.bounded,
                          &s.radial, &s.width, &s.filled, arrays, arrays + 1, arrays + 2, arrays + 3, arrays + 4,
                          arrays + 5, arrays + 6, arrays + 7, arrays + 8, arrays + 9, arrays + 10))
        return NULL;
    const Level *found = level_of(level);
    const Profile *profile = found ? profile_of(found, name) : NULL;
    if (!profile) return NULL;
    if (!found->tools->bytes) return PyErr_Format(PyExc_ValueError, "there are no products for level %s", level);
    if (PyTuple_Size(parameters) != profile->parameters)
        return PyErr_Format(PyExc_TypeError, "%s takes %d parameters", name, profile->parameters);
    for (int i = 0; i < profile->parameters; i++) {
        p[i] = PyFloat_AsDouble(PyTuple_GetItem(parameters, i));
        if (p[i] == -1 && PyErr_Occurred()) return NULL;
    }
    char format = 0;
    for (; taken < MATRICES; taken++) {
        views[taken].obj = NULL;
        if (arrays[taken] == Py_None) continue;
        char wanted = taken == DIAGONAL || taken == LEFT ? 'd' : format;
        int writable = taken == SCRATCH || taken == TILES || taken == LEFT || taken == RIGHT;
        if (!take(arrays[taken], &views[taken], &s.of[taken], wanted, writable)) {
            taken++;
            goto done;
        }
        if (!taken) format = *views[L].format;
    }
    s.wide = format == 'd';
    s.profile = profile->loops[s.wide];
    s.p = p;
    s.tools = &found->tools[s.wide];
    if (!(s.width > 0 && s.of[L].data && s.of[R].data && s.of[SCRATCH].data && s.of[INNER].data && s.of[LEFT].data &&
          fits(&s))) {
        PyErr_SetString(PyExc_ValueError, "the matrices of a strip do not fit each other");
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    squares = strip(&s);
    Py_END_ALLOW_THREADS
    ready = 1;
done:
    for (int i = 0; i < taken; i++)
        if (views[i].obj) PyBuffer_Release(&views[i]);
    return ready ? PyFloat_FromDouble(squares) : NULL;
}

/* shape(level): the bytes of a vector of `multiply`, 0 if it does not serve this level, and the rows it does at a time */
static PyObject *shape(PyObject *module, PyObject *args) {
    const char *level;
    if (!PyArg_ParseTuple(args, "s:shape", &level)) return NULL;
    const Level *found = level_of(level);
    return found ? Py_BuildValue("ii", found->tools->bytes, ROWS) : NULL;
}

/* add(level, total, part): total += part, for a float64 total and a part of either precision */
static PyObject *add(PyObject *module, PyObject *args) {
    const char *level;
    PyObject *arrays[2];
    Py_buffer views[2];
    Matrix to, from;
    if (!PyArg_ParseTuple(args, "sOO:add", &level, arrays, arrays + 1)) return NULL;
    const Level *found = level_of(level);
    if (!found) return NULL;
    views[0].obj = views[1].obj = NULL;
    int ready = take(arrays[0], &views[0], &to, 'd', 1) && take(arrays[1], &views[1], &from, 0, 0);
    if (ready && (to.rows != from.rows || to.columns != from.columns)) {
        PyErr_SetString(PyExc_ValueError, "what is added must have the shape of the total");
        ready = 0;
    }
    if (ready) { /* for so short a time the interpreter is not worth giving away: to get it back takes longer */
        int wide = *views[1].format == 'd';
        found->tools[wide].add((double *)to.data, to.step, from.data, from.step, to.rows, to.columns);
    }
    for (int i = 0; i < 2; i++)
        if (views[i].obj) PyBuffer_Release(&views[i]);
    if (!ready) return NULL;
    Py_RETURN_NONE;
}

/* centre(level, X, origin, factors, out, column): see above; returns the largest of |y|^2 / 2, NaN if one is NaN */
static PyObject *centre(PyObject *module, PyObject *args) {
    enum { X, ORIGIN, FACTORS, OUT, COUNT };
    const char *level;
    PyObject *arrays[COUNT];
    Py_buffer views[COUNT];
    Matrix of[COUNT];
    int column, taken = 0, ready = 1;
    double largest = 0;
    if (!PyArg_ParseTuple(args, "sOOOOp:centre", &level, arrays, arrays + 1, arrays + 2, arrays + 3, &column))
        return NULL;
    const Level *found = level_of(level);
    if (!found) return NULL;
    for (; ready && taken < COUNT; taken++) {
        views[taken].obj = NULL;
        char wanted = taken == ORIGIN || taken == FACTORS ? 'd' : 0;
        ready = take(arrays[taken], &views[taken], &of[taken], wanted, taken == OUT);
    }
    int d = ready ? of[X].columns : 0;
    if (ready && (of[ORIGIN].columns != d || of[FACTORS].columns != d || of[OUT].columns != d + 2 ||
                  of[OUT].rows != of[X].rows)) {
        PyErr_SetString(PyExc_ValueError, "rows, origin, factors and what they are written to must fit each other");
        ready = 0;
    }
    if (ready) {
        int from = *views[X].format == 'd', to = *views[OUT].format == 'd';
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < of[X].rows; i++) {
            double half = found->tools[to].centre(of[X].data + i * of[X].step * (from ? 8 : 4), from,
                                                  (const double *)of[ORIGIN].data, (const double *)of[FACTORS].data,
                                                  of[OUT].data + i * of[OUT].step * (to ? 8 : 4), d, column);
            largest = half <= largest ? largest : half;
        }
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < taken; i++)
        if (views[i].obj) PyBuffer_Release(&views[i]);
    return ready ? PyFloat_FromDouble(largest) : NULL;
}

static PyMethodDef methods[] = {
    {"levels", level_names, METH_NOARGS, "Return the kinds of CPU that there are loops for, best first."},
    {"apply", apply, METH_VARARGS, "Overwrite an array by a profile of its numbers."},
    {"multiply", multiply, METH_VARARGS, "Fill tiles and multiply them by vectors, from both sides."},
    {"shape", shape, METH_VARARGS, "Return the bytes of a vector of `multiply`, and the rows it does at a time."},
    {"centre", centre, METH_VARARGS, "Write centred and scaled rows with half of their squared lengths beside them."},
    {"add", add, METH_VARARGS, "Add an array of either precision to one of float64."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_simd", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__simd(void) {
    if (!level_count) find_levels();
    return PyModule_Create(&definition);
}

#elif !defined(PRECISION) /* -- one level: both precisions, and the table of their loops ------------------------- */

#define PRECISION f64
#include "_simd.c"
#undef PRECISION
#define PRECISION f32
#include "_simd.c"
#undef PRECISION

#define ROW(name, count) {#name, count, {JOIN(JOIN(name, f32), LEVEL), JOIN(JOIN(name, f64), LEVEL)}}
static const Profile JOIN(profiles, LEVEL)[] = {
    ROW(exp, 0),           ROW(expm1, 0),           ROW(matern1, 0),       ROW(matern3, 0),
    ROW(matern5, 0),       ROW(matern1_minus_1, 0), ROW(matern3_minus_1, 0), ROW(matern5_minus_1, 0),
    ROW(matern1_slope, 0), ROW(matern3_slope, 0),   ROW(matern5_slope, 0), ROW(power, 4),
    ROW(power_minus_1, 4), ROW(whole_power, 3),     ROW(tanh, 1),          ROW(tanh_slope, 1),
    ROW(itself, 0),        {NULL, 0, {NULL, NULL}},
};
#undef ROW
#define NAMED(name, precision) JOIN(JOIN(name, precision), LEVEL)
#if BYTES
#define PRODUCTS(p) NAMED(pack, p), NAMED(arguments, p), NAMED(from_left, p), NAMED(from_right, p), NAMED(moments, p)
#else
#define PRODUCTS(p) NULL, NULL, NULL, NULL, NULL
#endif
#define TOOLS(p) {NAMED(not_positive, p), NAMED(add, p), NAMED(centre, p), BYTES, PRODUCTS(p)}
static const Tools JOIN(tools, LEVEL)[] = {TOOLS(f32), TOOLS(f64)};
#undef PRODUCTS
#undef NAMED
#undef TOOLS
#undef LEVEL
#undef TARGET
#undef FUSED
#undef BYTES

#else /* -- one level and precision: the mathematics ---------------------------------------------------------------- */

#define REAL OF(REAL)
#define INT OF(INT)
#define AT(name) JOIN(OF(name), LEVEL)
#define WIDE(name) JOIN(JOIN(name, f64), LEVEL)
#define FUNCTION TARGET INLINE
FUNCTION REAL AT(fused)(REAL a, REAL b, REAL c) {
#if FUSED
    return OF(FMA)(a, b, c);
#else
    return a * b + c;
#endif
}

/* a * b = high + low, exactly but for overflow */
FUNCTION REAL AT(low_product)(REAL a, REAL b, REAL high) {
#if FUSED
    return OF(FMA)(a, b, -high);
#else
    REAL x = a * OF(SPLITTER), y = b * OF(SPLITTER), size = high < 0 ? -high : high;
    REAL a1 = x - (x - a), b1 = y - (y - b), a2 = a - a1, b2 = b - b1;
    REAL low = ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2;
    return size < OF(LARGE) ? low : 0;
#endif
}

/* a + b = high + low, exactly (Knuth) but for overflow */
FUNCTION REAL AT(low_sum)(REAL a, REAL b, REAL high) {
    REAL second = high - a, low = (a - (high - second)) + (b - second);
    return low == low ? low : 0;
}

/* (a + a_low) / (d + d_low), of which the rounding of a / d is made up for; infinite for d = 0 */
FUNCTION REAL AT(quotient)(REAL a, REAL a_low, REAL d, REAL d_low) {
    REAL r = a / d, product = r * d, gap = ((a - product) - AT(low_product)(r, d, product)) + (a_low - r * d_low);
    return gap == gap ? r + gap / d : r;
}

FUNCTION REAL AT(between)(REAL x, REAL lowest, REAL highest) { /* NaN stays NaN */
    x = x < lowest ? lowest : x;
    return x > highest ? highest : x;
}

/* e^(x + low) = 2^k (1 + r + tail), for x within bounds and low tiny; k in the lowest bits of `whole` */
FUNCTION REAL AT(rest_and_tail)(REAL x, REAL low, INT *whole, REAL *tail) {
    REAL z = AT(fused)(x, (REAL)LOG2E, OF(ROUNDER)), k = z - OF(ROUNDER), main = AT(fused)(k, -OF(LN2_HIGH), x);
    memcpy(whole, &z, sizeof z);
    REAL small = AT(fused)(k, -OF(LN2_LOW), low), r = main + small, r_low = (main - r) + small;
    *tail = AT(fused)(OF(EXP)(r) * r, r, AT(fused)(r_low, r, r_low));
    return r;
}

FUNCTION REAL AT(rest)(REAL x, REAL low, INT *whole) {
    REAL tail, r = AT(rest_and_tail)(x, low, whole, &tail);
    return r + tail;
}

/* The same with low = 0 and half a rounding less exact: a third faster, and good enough for e^x itself */
FUNCTION REAL AT(quick_rest)(REAL x, INT *whole) {
    REAL z = AT(fused)(x, (REAL)LOG2E, OF(ROUNDER)), k = z - OF(ROUNDER);
    memcpy(whole, &z, sizeof z);
    REAL r = AT(fused)(k, -OF(LN2_LOW), AT(fused)(k, -OF(LN2_HIGH), x));
    return AT(fused)(OF(EXP)(r) * r, r, r);
}

FUNCTION REAL AT(power_of_two)(INT k) { /* the other bits of `whole` are shifted out; k beyond the range must not be */
    INT bits = (INT)((OF(UINT))(k + OF(BIAS)) << OF(MANTISSA));
    REAL scale;
    memcpy(&scale, &bits, sizeof bits);
    return scale;
}

/* m 2^k, for m = e^x / 2^k times something moderate. 2^k itself may be too small or too large for a number. */
FUNCTION REAL AT(scaled)(REAL m, REAL x, INT k) {
    int small = x < OF(DENORMAL);
    return m * AT(power_of_two)(k + (small ? OF(BIAS) / 2 : -1)) * (small ? AT(power_of_two)(-OF(BIAS) / 2) : 2);
}

FUNCTION REAL AT(exponential)(REAL x) {
    INT k;
    x = AT(between)(x, OF(LOWEST), OF(HIGHEST));
    REAL q = AT(quick_rest)(x, &k);
    return AT(scaled)(1 + q, x, k);
}

/* 2^k (1 + q) - 1, of an x within bounds; 2^k may be infinite where this is not */
FUNCTION REAL AT(minus_1)(REAL given, REAL q, INT k) {
    REAL half = AT(power_of_two)(k - 1), size = given < 0 ? -given : given;
    return size < OF(TINY) ? given : 2 * AT(fused)(half, q, half - (REAL)0.5);
}

FUNCTION REAL AT(exponential_minus_1)(REAL x) {
    INT k;
    REAL q = AT(quick_rest)(AT(between)(x, OF(SATURATED), OF(HIGHEST)), &k);
    return AT(minus_1)(x, q, k);
}

FUNCTION REAL AT(sum_minus_1)(REAL x, REAL low) {
    INT k;
    REAL q = AT(rest)(AT(between)(x, OF(SATURATED), OF(HIGHEST)), low, &k);
    return AT(minus_1)(x + low, q, k);
}

/* u = sqrt(-t) as a sum of two numbers, where the second one matters */
FUNCTION REAL AT(root)(REAL t, REAL *low) {
    REAL s = 0 - t; /* 0, not -0, for t = 0 */
    s = s > (REAL)FAR ? (REAL)FAR : s;
    REAL u = OF(SQRT)(s), square = u * u, gap = (s - square) - AT(low_product)(u, u, square);
    *low = s > (REAL)1e-20 ? gap / (u + u) : 0;
    return u;
}

#define LOOP(name, formula) \
    TARGET static void AT(name)(void *data, Py_ssize_t n, const double *p) { \
        REAL *x = data; \
        for (Py_ssize_t i = 0; i < n; i++) { \
            REAL t = x[i]; \
            x[i] = formula; \
        } \
    }

LOOP(not_positive, t > 0 ? 0 : t)

TARGET static void AT(itself)(void *data, Py_ssize_t n, const double *p) {}

/* total += part; `step` and `from` are numbers from row to row */
TARGET static void AT(add)(double *total, Py_ssize_t step, const void *part, Py_ssize_t from, Py_ssize_t n,
                           Py_ssize_t b) {
    const REAL *x = part;
    if (step == b && from == b) {
        b *= n;
        n = 1;
    }
    for (Py_ssize_t i = 0; i < n; i++, total += step, x += from)
        for (Py_ssize_t j = 0; j < b; j++) total[j] += x[j];
}

/* A row (y, -|y|^2 / 2, 1), or (y, 1, -|y|^2 / 2) as a `column`, of y = (x - origin) factors; returns |y|^2 / 2 */
TARGET static double AT(centre)(const void *row, int wide, const double *origin, const double *factors, void *out,
                                Py_ssize_t d, int column) {
    enum { LANES = 8 };
    REAL *y = out;
    double sums[LANES] = {0}, half = 0;
    if (wide)
        for (Py_ssize_t k = 0; k < d; k++) y[k] = (REAL)((((const double *)row)[k] - origin[k]) * factors[k]);
    else
        for (Py_ssize_t k = 0; k < d; k++) y[k] = (REAL)((((const float *)row)[k] - origin[k]) * factors[k]);
    Py_ssize_t k = 0;
    for (; k + LANES <= d; k += LANES)
        for (int l = 0; l < LANES; l++) sums[l] += (double)y[k + l] * (double)y[k + l];
    for (int l = 0; l < LANES; l++) half += sums[l];
    for (; k < d; k++) half += (double)y[k] * (double)y[k];
    half *= 0.5;
    y[d + column] = (REAL)-half;
    y[d + 1 - column] = 1;
    return half;
}

/* -- Products of tiles, some rows at a time: BLAS would copy them once for each ----------------------------------- */

#if BYTES
#define SIMD(name) JOIN(OF(name), BYTES)
#define VECTOR SIMD(VECTOR)
#define LANES (BYTES / (int)sizeof(REAL))
#if BYTES == 32 /* as many sums as there are registers for */
#define HIGH 12
#define TALL 6
#define FLAT 4
#else
#define HIGH 24
#define TALL 12
#define FLAT 8
#endif

/* Columns y of R (m x k) as panels of two vectors: the k numbers of all of them, one after the other */
TARGET static void AT(pack)(const void *from, Py_ssize_t step, Py_ssize_t m, Py_ssize_t k, void *to) {
    enum { WIDTH = 2 * LANES };
    const REAL *y = from;
    REAL *panel = to;
    for (Py_ssize_t start = 0; start < m; start += WIDTH, panel += k * WIDTH)
        for (Py_ssize_t j = 0; j < WIDTH; j++)
            for (Py_ssize_t l = 0; l < k; l++) panel[l * WIDTH + j] = start + j < m ? y[(start + j) * step + l] : 0;
}

/* t (M rows x a panel) = x.y, or 2 x.y - (|x|^2 + |y|^2): the same bits for x and y as for y and x */
#define ARGUMENTS(name, M) \
    FUNCTION void AT(name)(const REAL *x, Py_ssize_t step, const REAL *panel, Py_ssize_t k, int radial, int bounded, \
                           REAL *t, Py_ssize_t c) { \
        VECTOR sums[M][2], y[2], each; \
        k -= 2 * radial; \
        for (int i = 0; i < M; i++) \
            for (int j = 0; j < 2; j++) sums[i][j] = SIMD(EACH)(0); \
        for (Py_ssize_t l = 0; l < k; l++) { \
            for (int j = 0; j < 2; j++) y[j] = SIMD(LOAD)(panel + (2 * l + j) * LANES); \
            for (int i = 0; i < M; i++) { \
                each = SIMD(EACH)(x[i * step + l]); \
                for (int j = 0; j < 2; j++) sums[i][j] = SIMD(PLUS_PRODUCT)(each, y[j], sums[i][j]); \
            } \
        } \
        for (int j = 0; j < 2; j++) { \
            VECTOR most = SIMD(EACH)(bounded ? 0 : (REAL)INFINITY), one = SIMD(EACH)(1); \
            VECTOR length = radial ? SIMD(LOAD)(panel + (2 * (k + 1) + j) * LANES) : one; \
            for (int i = 0; i < M; i++) { \
                if (radial) { \
                    VECTOR both = SIMD(PLUS_PRODUCT)(SIMD(EACH)(x[i * step + k]), one, length); \
                    sums[i][j] = SIMD(PLUS_PRODUCT)(both, one, sums[i][j]); \
                } \
                SIMD(STORE)(t + i * c + j * LANES, SIMD(LEAST)(most, sums[i][j])); \
            } \
        } \
    }

ARGUMENTS(some_arguments, TALL)
ARGUMENTS(few_arguments, 1)

TARGET static void AT(arguments)(const void *rows, Py_ssize_t step, const void *panels, Py_ssize_t k, int radial,
                                 int bounded, void *tile, Py_ssize_t n, Py_ssize_t m) {
    const REAL *x = rows, *panel = panels;
    REAL *t = tile, part[TALL * 2 * LANES];
    for (Py_ssize_t j = 0; j < m; j += 2 * LANES, panel += k * 2 * LANES) {
        Py_ssize_t count = m - j < 2 * LANES ? m - j : 2 * LANES, i = 0, height;
        for (; i < n; i += height) {
            REAL *to = count < 2 * LANES ? part : t + i * m + j;
            Py_ssize_t c = count < 2 * LANES ? 2 * LANES : m;
            height = n - i < TALL ? 1 : TALL;
            if (height == 1)
                AT(few_arguments)(x + i * step, step, panel, k, radial, bounded, to, c);
            else
                AT(some_arguments)(x + i * step, step, panel, k, radial, bounded, to, c);
            for (Py_ssize_t h = 0; to == part && h < height; h++)
                memcpy(t + (i + h) * m + j, part + h * 2 * LANES, (size_t)count * sizeof(REAL));
        }
    }
}

/* C (M x N vectors) = A B, or C += A B unless `first`; `down` and `along` are numbers from row to row and from column
   to column of A (M x k) */
#define PRODUCT(name, M, N) \
    FUNCTION void AT(name)(const REAL *A, Py_ssize_t down, Py_ssize_t along, const REAL *B, Py_ssize_t b, REAL *C, \
                           Py_ssize_t c, Py_ssize_t k, int first) { \
        VECTOR sums[M][N], row[N], each; \
        for (int i = 0; i < M; i++) \
            for (int j = 0; j < N; j++) sums[i][j] = first ? SIMD(EACH)(0) : SIMD(LOAD)(C + i * c + j * LANES); \
        for (Py_ssize_t l = 0; l < k; l++) { \
            for (int j = 0; j < N; j++) row[j] = SIMD(LOAD)(B + l * b + j * LANES); \
            for (int i = 0; i < M; i++) { \
                each = SIMD(EACH)(A[i * down + l * along]); \
                for (int j = 0; j < N; j++) sums[i][j] = SIMD(PLUS_PRODUCT)(each, row[j], sums[i][j]); \
            } \
        } \
        for (int i = 0; i < M; i++) \
            for (int j = 0; j < N; j++) SIMD(STORE)(C + i * c + j * LANES, sums[i][j]); \
    }

PRODUCT(flat_3, FLAT, 3)
PRODUCT(flat_1, FLAT, 1)
PRODUCT(tall_2, TALL, 2)
PRODUCT(high_1, HIGH, 1)
PRODUCT(single_3, 1, 3)
PRODUCT(single_2, 1, 2)
PRODUCT(single_1, 1, 1)

/* out (n x b) = T V for some rows T (n x m) of a tile; b must be a multiple of LANES */
TARGET static void AT(from_left)(const void *tile, Py_ssize_t n, Py_ssize_t m, const void *inner, Py_ssize_t b,
                                 void *out) {
    const REAL *T = tile, *V = inner;
    REAL *C = out;
    for (Py_ssize_t j = 0, vectors; j < b; j += vectors * LANES) {
        vectors = (b - j) / LANES;
        vectors = vectors == 4 ? 2 : vectors > 3 ? 3 : vectors;
        int high = vectors == 3 ? FLAT : vectors == 2 ? TALL : HIGH;
        for (Py_ssize_t i = 0; i < n;) {
            const REAL *A = T + i * m, *B = V + j;
            REAL *to = C + i * b + j;
            int whole = n - i >= high;
            if (vectors == 3)
                whole ? AT(flat_3)(A, m, 1, B, b, to, b, m, 1) : AT(single_3)(A, m, 1, B, b, to, b, m, 1);
            else if (vectors == 2)
                whole ? AT(tall_2)(A, m, 1, B, b, to, b, m, 1) : AT(single_2)(A, m, 1, B, b, to, b, m, 1);
            else
                whole ? AT(high_1)(A, m, 1, B, b, to, b, m, 1) : AT(single_1)(A, m, 1, B, b, to, b, m, 1);
            i += whole ? high : 1;
        }
    }
}

/* out (c x m) = W T, or += unless `first`, for some rows T (n x m) of a tile; c must be a multiple of 8 */
TARGET static void AT(from_right)(const void *tile, Py_ssize_t n, Py_ssize_t m, const void *across, Py_ssize_t w,
                                  Py_ssize_t c, void *out, Py_ssize_t step, int first) {
    const REAL *T = tile, *W = across;
    REAL *C = out;
    Py_ssize_t k = 0;
    for (; k + 3 * LANES <= m; k += 3 * LANES)
        for (Py_ssize_t j = 0; j < c; j += FLAT)
            AT(flat_3)(W + j * w, w, 1, T + k, m, C + j * step + k, step, n, first);
    for (; k + LANES <= m; k += LANES)
        for (Py_ssize_t j = 0; j < c; j += FLAT)
            AT(flat_1)(W + j * w, w, 1, T + k, m, C + j * step + k, step, n, first);
    for (; k < m; k++)
        for (Py_ssize_t j = 0; j < c; j++) {
            REAL sum = first ? 0 : C[j * step + k];
            for (Py_ssize_t l = 0; l < n; l++) sum = OF(FMA)(W[j * w + l], T[l * m + k], sum);
            C[j * step + k] = sum;
        }
}

/* Of a row t of a tile: adds the sum of u t to `total`, w t to `below` if there is one (or writes it), and returns the
   sum of u t^2; as some sums side by side, which a vector adds up at a time */
TARGET static double AT(moments)(const void *row, Py_ssize_t n, const void *weights, double w, double *total,
                                 void *below, int first) {
    enum { SIDE = 16 };
    const REAL *t = row, *u = weights;
    REAL *out = below, own = (REAL)w;
    double sums[SIDE] = {0}, squares[SIDE] = {0}, square = 0;
    for (Py_ssize_t start = 0; start < n; start += SIDE) {
        Py_ssize_t count = n - start < SIDE ? n - start : SIDE;
        for (Py_ssize_t k = 0; k < count; k++) {
            double value = t[start + k], weighted = value * (double)u[start + k];
            sums[k] += weighted;
            squares[k] += weighted * value;
        }
    }
    for (Py_ssize_t k = 0; out && k < n; k++) out[k] = OF(FMA)(own, t[k], first ? 0 : out[k]);
    for (int k = 0; k < SIDE; k++) *total += sums[k];
    for (int k = 0; k < SIDE; k++) square += squares[k];
    return square;
}
#undef SIMD
#undef VECTOR
#undef LANES
#undef HIGH
#undef TALL
#undef FLAT
#endif

LOOP(exp, AT(exponential)(t))
LOOP(expm1, AT(exponential_minus_1)(t))

/* -- Matern: e^-u times 1, 1 + u or 1 + u + u^2/3; `nu` is twice the order --------------------------------------- */

/* 1, 1 + u or 1 + u + u^2/3 as a sum of two numbers */
FUNCTION REAL AT(matern_factor)(REAL t, REAL u, REAL u_low, int nu, REAL *low) {
    REAL linear = 1 + u, linear_low = AT(low_sum)(1, u, linear) + u_low;
    REAL square = t < (REAL)-FAR ? (REAL)FAR : -t, third = square / 3, sum = linear + third;
    REAL third_low = ((square - 2 * third) - third) / 3;
    *low = nu == 1 ? 0 : nu == 3 ? linear_low : AT(low_sum)(linear, third, sum) + (third_low + linear_low);
    return nu == 1 ? 1 : nu == 3 ? linear : sum;
}

FUNCTION REAL AT(matern)(REAL t, int nu) {
    INT k;
    REAL low, u = AT(root)(t, &low), x = AT(between)(-u, OF(LOWEST), 0);
    REAL tail, r = AT(rest_and_tail)(x, -low, &k, &tail);
    REAL factor_low, factor = AT(matern_factor)(t, u, low, nu, &factor_low);
    return AT(scaled)(factor + AT(fused)(factor, r, AT(fused)(factor, tail, factor_low)), x, k);
}

FUNCTION REAL AT(matern1_shifted)(REAL t) {
    REAL low, u = AT(root)(t, &low);
    return AT(sum_minus_1)(-u, -low);
}

#if OF(DOUBLE)
/* f - 1 of nu = 3 and 5: t times a polynomial for small u, where the terms of order u cancel */
FUNCTION double AT(matern_shifted)(double t, int nu) {
    int64_t k;
    double low, u = AT(root)(t, &low), middle = nu == 3 ? 0.75 : 1.25, v = (u - middle) + low;
    v = v > middle ? middle : v;
    double value = nu == 3 ? MATERN3_MIDDLE : MATERN5_MIDDLE, main = t * value;
    double near = main + (AT(low_product)(t, value, main) + t * (nu == 3 ? MATERN3(v) : MATERN5(v)));
    double x = AT(between)(-u, LOWEST_f64 / 2, 0), q = AT(rest)(x, -low, &k), scale = AT(power_of_two)(k);
    double factor_low, factor = AT(matern_factor)(t, u, low, nu, &factor_low);
    double far = AT(fused)(scale, factor, -1) + scale * AT(fused)(factor, q, factor_low);
    return u > (nu == 3 ? 1.25 : 2.0) ? far : near;
}

/* f' = e^-u / (2u), e^-u / 2 or (1 + u) e^-u / 6, as du/dt = -1/(2u) */
FUNCTION double AT(matern_slope)(double t, int nu) {
    int64_t k;
    double low, u = AT(root)(t, &low), x = AT(between)(-u, LOWEST_f64, 0), q = AT(rest)(x, -low, &k);
    double linear_low, linear = AT(matern_factor)(t, u, low, nu == 5 ? 3 : 1, &linear_low);
    double rest = AT(fused)(linear, q, linear_low), m = linear + rest, m_low = rest - (m - linear);
    m = nu == 1 ? AT(quotient)(m, m_low, u + u, low + low) : nu == 3 ? m / 2 : AT(quotient)(m, m_low, 6, 0);
    return AT(scaled)(m, x, k);
}
#endif

#if FUSED /* without FMA float32 alone is not exact enough */
#define MATERN AT
#else
#define MATERN WIDE
#endif
LOOP(matern1, (REAL)MATERN(matern)(t, 1))
LOOP(matern3, (REAL)MATERN(matern)(t, 3))
LOOP(matern5, (REAL)WIDE(matern)(t, 5))
LOOP(matern1_slope, (REAL)WIDE(matern_slope)(t, 1))
LOOP(matern3_slope, (REAL)WIDE(matern_slope)(t, 3))
LOOP(matern5_slope, (REAL)WIDE(matern_slope)(t, 5))
LOOP(matern1_minus_1, (REAL)MATERN(matern1_shifted)(t))
LOOP(matern3_minus_1, (REAL)WIDE(matern_shifted)(t, 3))
LOOP(matern5_minus_1, (REAL)WIDE(matern_shifted)(t, 5))


/* -- Powers and tanh, in float64 for float32 numbers too: their own digits do not suffice ------------------------ */

#if OF(DOUBLE)

/* log(y + y_low) as a sum of two numbers, to some 66 bits: a power magnifies its error by up to 700 */
FUNCTION double AT(logarithm)(double y, double y_low, double *low) {
    int small = y < 0x1p-1022;
    double scaled = small ? y * 0x1p54 : y, m;
    uint64_t bits;
    memcpy(&bits, &scaled, sizeof bits);
    uint64_t mantissa = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u, exponent = (bits >> 52) | 0x4330000000000000u;
    double e;
    memcpy(&m, &mantissa, sizeof m);
    memcpy(&e, &exponent, sizeof e);
    e -= 4503599627370496.0 + 1023 + (small ? 54 : 0);
    int upper = m > 1.4142135623730951;
    m = upper ? m * 0.5 : m;
    e = upper ? e + 1 : e;
    /* log m = 2 artanh z with z = f / (2 + f), the terms of order z and z^3 in two numbers each */
    double f = m - 1, d = 2 + f, d_low = (2 - d) + f, z = f / d, product = z * d;
    double z_low = (((f - product) - AT(low_product)(z, d, product)) - z * d_low) / d;
    double w = z * z, w_low = AT(low_product)(z, z, w) + 2 * z * z_low;
    double c = z * w, c_low = AT(low_product)(z, w, c) + (z * w_low + z_low * w);
    double third = c * (2.0 / 3), third_rest = c_low * (2.0 / 3) + c * 3.7007434154171886e-17;
    double third_low = AT(low_product)(c, 2.0 / 3, third) + third_rest;
    double whole = e * LN2_HIGH_f64, first = whole + 2 * z, second = first + third;
    double tail = c * w * LOG_TAIL(w) + third_low + 2 * z_low + e * LN2_LOW_f64 + y_low / y;
    tail += AT(low_sum)(whole, 2 * z, first) + AT(low_sum)(first, third, second);
    double high = second + tail;
    *low = tail - (high - second);
    high = y > 0 ? high : y == 0 ? -INFINITY : NAN;
    high = y == INFINITY || y == -INFINITY ? INFINITY : high; /* as IEEE has it */
    *low = y > 0 && y < INFINITY ? *low : 0;
    return high;
}

/* The exponent of (origin + sign t)^power = e^(high + low) */
FUNCTION double AT(exponent)(double t, const double *p, double *low) {
    double signed_t = p[1] * t, y = p[0] + signed_t, y_low = AT(low_sum)(p[0], signed_t, y);
    double log_low, log = AT(logarithm)(y, y_low, &log_low);
    double x = p[2] * log, size = x < 0 ? -x : x;
    *low = size < 2000 ? AT(low_product)(p[2], log, x) + p[2] * log_low : 0;
    return p[2] == 0 && y == y ? 0 : x;
}

/* origin, sign, power, factor */
FUNCTION double AT(powered)(double t, const double *p) {
    int64_t k;
    double low, whole = AT(exponent)(t, p, &low), x = AT(between)(whole, LOWEST_f64, HIGHEST_f64);
    double q = AT(rest)(x, low, &k);
    double result = AT(scaled)(AT(fused)(p[3], q, p[3]), x, k);
    return whole > HIGHEST_f64 ? p[3] * (double)INFINITY : result;
}

FUNCTION double AT(powered_minus_1)(double t, const double *p) {
    double low, x = AT(exponent)(t, p, &low);
    return p[3] * AT(sum_minus_1)(x, low);
}

/* |x| for x = t + origin, as a sum of two numbers; where e^-|x| is 0, the second, which may be large, is left out */
FUNCTION double AT(distance)(double t, double origin, double x, double *low) {
    double size = x < 0 ? -x : x, rest = AT(low_sum)(t, origin, x);
    *low = size > 1000 ? 0 : x < 0 ? -rest : rest;
    return size;
}

/* tanh of |t + origin| is -m / (2 + m) with m = e^(-2 |t + origin|) - 1 */
FUNCTION double AT(hyperbolic)(double t, const double *p) {
    double size_low, x = t + p[0], size = AT(distance)(t, p[0], x, &size_low);
    double m = AT(sum_minus_1)(-2 * size, -2 * size_low);
    double d = 2 + m, result = AT(quotient)(-m, 0, d, (2 - d) + m);
    result = x < 0 ? -result : result;
    return size < TINY_f64 ? x : result;
}

/* 1 / cosh^2 = 4e / (1 + e)^2 with e = e^(-2 |t + origin|) */
FUNCTION double AT(hyperbolic_slope)(double t, const double *p) {
    int64_t k;
    double size_low, x = t + p[0], size = AT(distance)(t, p[0], x, &size_low);
    double y = AT(between)(-2 * size, LOWEST_f64, 0), q = AT(rest)(y, -2 * size_low, &k);
    double e = AT(scaled)(1 + q, y, k), w = 1 + e, w_low = e - (w - 1), square = w * w;
    double square_low = AT(low_product)(w, w, square) + 2 * w * w_low, m = 1 + q;
    return AT(scaled)(4 * AT(quotient)(m, q - (m - 1), square, square_low), y, k);
}

#endif

LOOP(power, (REAL)WIDE(powered)(t, p))
LOOP(power_minus_1, (REAL)WIDE(powered_minus_1)(t, p))
LOOP(tanh, (REAL)WIDE(hyperbolic)(t, p))
LOOP(tanh_slope, (REAL)WIDE(hyperbolic_slope)(t, p))

#if OF(DOUBLE)

FUNCTION double AT(product)(double a, double a_low, double b, double b_low, double *low) {
    double high = a * b;
    *low = AT(low_product)(a, b, high) + (a * b_low + a_low * b);
    return high;
}

/* factor (t + origin)^n as a sum of two numbers, for n that the compiler knows */
FUNCTION double AT(raised)(double t, const double *p, int n, double *low) {
    double b = t + p[0], b_low = AT(low_sum)(t, p[0], b), s_low, s = AT(product)(b, b_low, b, b_low, &s_low);
    double high = n % 2 ? b : s, high_low = n % 2 ? b_low : s_low;
    if (n > 2) high = AT(product)(high, high_low, s, s_low, &high_low);
    return AT(product)(p[2], 0, high, high_low, low);
}

#endif

/* The digits of float64 suffice for float32: there the second number is not even computed. */
FUNCTION REAL AT(small_power)(REAL t, const double *p, int n) {
    double low, high = WIDE(raised)(t, p, n, &low), size = high < 0 ? -high : high;
    return (REAL)(!OF(DOUBLE) || size == (double)INFINITY ? high : high + low);
}

LOOP(power_1, AT(small_power)(t, p, 1))
LOOP(power_2, AT(small_power)(t, p, 2))
LOOP(power_3, AT(small_power)(t, p, 3))
LOOP(power_4, AT(small_power)(t, p, 4))

/* factor (t + origin)^power of a whole power > 0, by squaring: a few numbers at a time, each as a sum of two */
TARGET static void AT(whole_power)(void *data, Py_ssize_t n, const double *p) {
    enum { CHUNK = 256 };
    static const Loop small[] = {AT(power_1), AT(power_2), AT(power_3), AT(power_4)};
    double base[CHUNK], base_low[CHUNK], high[CHUNK], low[CHUNK];
    REAL *x = data;
    unsigned long power = (unsigned long)p[1], leading = 1;
    if (power >= 1 && power <= 4) {
        small[power - 1](data, n, p);
        return;
    }
    while (leading <= power / 2) leading *= 2;
    for (Py_ssize_t start = 0; start < n; start += CHUNK, x += CHUNK) {
        int count = n - start < CHUNK ? (int)(n - start) : CHUNK;
        for (int i = 0; i < count; i++) {
            high[i] = base[i] = x[i] + p[0];
            low[i] = base_low[i] = WIDE(low_sum)(x[i], p[0], base[i]);
        }
        for (unsigned long bit = leading / 2; bit; bit /= 2) {
            for (int i = 0; i < count; i++) {
                high[i] = WIDE(product)(high[i], low[i], high[i], low[i], &low[i]);
            }
            if (power & bit)
                for (int i = 0; i < count; i++)
                    high[i] = WIDE(product)(high[i], low[i], base[i], base_low[i], &low[i]);
        }
        for (int i = 0; i < count; i++) {
            double product = p[2] * high[i], size = product < 0 ? -product : product;
            double rest = WIDE(low_product)(p[2], high[i], product) + p[2] * low[i];
            x[i] = (REAL)(size < INFINITY ? product + rest : product);
        }
    }
}

#undef REAL
#undef INT
#undef AT
#undef WIDE
#undef FUNCTION
#undef LOOP
#undef MATERN

#endif
