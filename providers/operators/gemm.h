/* gemm.h - the blocked matrix multiplication of MatMul, Gemm, Conv, Attention and related operators.
 *
 *     C[m, n] = sum over k of A[m, k] * B[k, n]        for `batch` independent multiplications
 *
 * It follows Goto and van de Geijn ("Anatomy of High-Performance Matrix Multiplication"): a microkernel keeps a block
 * of mr x nr sums in registers and reads A and B from packed panels. A job describes the multiplication: its sizes, the
 * sources of A and B, the destination of C. A tile is a rectangle of C that one thread computes completely; tiles are
 * independent.
 *
 * An engine (gemm_engine) implements the multiplication: the microkernels of the providers reference and cpu
 * (gemm/blocks.c), or a BLAS library. The operators in products.def are written once, for any engine.
 *
 * A and B are symmetric: both are sets of *lines* along k (rows of A, columns of B). They are packed as panels of
 * `width` lines (mr for A, nr for B): panel, then k, then line; lines beyond the last are zero. k is divided into
 * blocks of gemm_depth(), and a packed matrix contains block after block. Constants are packed once
 * (gemm_pack_constant). Other operands are packed tile by tile, by a function that may read any layout (strides, half
 * precision, the windows of a convolution).
 *
 * No function here allocates, except gemm_pack_constant(). gemm_plan() computes the workspace per thread. */
#ifndef GEMM_H
#define GEMM_H
#include "inlay/kit_call.h"
#include "inlay/kit_node.h"
#include <math.h>

/* Element type of the multiplication and of the sums. */
enum {
    GEMM_F32 = 0,  /* float; also for float16 and bfloat16, which are converted while packing */
    GEMM_F64 = 1,  /* double */
    GEMM_U32 = 2,  /* 32-bit integers, signed or unsigned; both wrap the same */
    GEMM_U64 = 3,  /* 64-bit integers */
    GEMM_S16 = 4,  /* int16_t products summed in int32_t: 8-bit integers minus their zero point */
    GEMM_BF16 = 5, /* bfloat16 products summed in float, on CPUs with instructions for it; no kernel on others */
    GEMM_TYPE_COUNT = 6
};

enum { GEMM_MAX_MR = 8, GEMM_MAX_NR = 48 }; /* maximum lines of a panel of microkernels */
enum { GEMM_MAX_WIDTH = 512 };              /* maximum lines of a panel of any kernel */

/* Computes rows x cols sums over kc steps of k, and adds them to c (or writes them, if !add). c_stride: elements from
 * one row of c to the next. a: packed panel. b: packed panel, or rows of an unpacked matrix; b_stride: elements from
 * one k (from k_step of them) to the next. */
typedef void (*gemm_tile_fn)(int64_t kc, const void *a, const void *b, int64_t b_stride, void *c, int64_t c_stride,
                             int64_t cols, bool add);

typedef struct gemm_job gemm_job;
typedef struct gemm_tile gemm_tile;

enum { GEMM_PACKS_A = 1, GEMM_PACKS_B = 2 };
typedef struct gemm_kernel gemm_kernel;
typedef struct product_size product_size;

/* Nanoseconds of a multiplication on one thread, see product_cost.h. */
typedef struct gemm_price {
    double multiply_ns;  /* on the reference core */
    double more_ns;      /* of the rest, such as the call and packing; on any core */
    double tiles, whole; /* the tiles, which threads share, and their work in units of the largest one */
    double tile;         /* multiply-adds of the largest tile */
} gemm_price;

/* The implementation of the multiplication of one type: the microkernels of an instruction set, or a library. */
struct gemm_kernel {
    const char *isa;    /* "avx512", "avx2", "neon", "wasm", "c", or the library's name */
    uint32_t mr, nr;    /* lines of A's and B's panels; tiles are multiples of them. Microkernels: nr = 3 * lanes */
    uint32_t lanes;     /* microkernels: sums per vector register */
    uint32_t in_bytes;  /* of a packed element */
    uint32_t acc_bytes; /* of a sum */
    uint32_t k_step;    /* packed k is rounded up to a multiple: 2 for S16, 4 for BF16 */
    const gemm_tile_fn *tile;         /* microkernels, [mr * 3]: tile[3 * (rows - 1) + vectors - 1] */
    uint32_t depth;                   /* maximum k of a packed block */
    uint32_t chain;                   /* terms that are accumulated sequentially; 0: a whole block (gemm_chain) */
    uint32_t packs;                   /* GEMM_PACKS_*: operands that are prepacked if constant (gemm_pack_constant) */
    uint32_t pack_rows, pack_columns; /* B is prepacked only if C has at least this size */
    /* Chooses the tile size of the job for a thread count. */
    void (*plan)(const gemm_job *job, uint32_t threads, int64_t *out_tile_m, int64_t *out_tile_n);
    /* Workspace that multiply() needs for a tile of the job's size. */
    uint64_t (*pack_bytes)(const gemm_job *job);
    /* Sets (or, if job->init is set, adds to) the sums of a tile; job->k > 0. workspace: pack_bytes, aligned. */
    void (*multiply)(const gemm_job *job, const gemm_tile *tile, void *workspace);
    /* Estimates one multiplication of a batch, see product_cost.h. */
    gemm_price (*price)(const gemm_kernel *kernel, const product_size *size);
    const void *user; /* private to the engine */
};

/* Length of k that is summed before it is added to C. Precision strict sets chain: the error of a sum grows with the
 * square root of the number of terms that are added sequentially, and of the number of partial sums. */
enum { GEMM_STRICT_CHAIN = 64 };
static inline int64_t gemm_chain(const gemm_kernel *kernel, int64_t k)
{
    const int64_t even = (int64_t)(2 * sqrt((double)k));

    return kernel->chain == 0 ? k : even > kernel->chain ? even : kernel->chain;
}

enum { GEMM_GRAIN = 128 * 1024 /* multiply-adds that are worth another thread */ };

/* The source of kernels. kit_node.provider points to a struct whose first member is an engine, so that any provider can
 * use the operators. kernel(): returns the best kernel of a type on this machine. */
typedef struct gemm_engine gemm_engine;
struct gemm_engine {
    const gemm_kernel *(*kernel)(const gemm_engine *self, uint32_t type);
};
/* Whether a constant B is prepacked. rows, columns: of C, -1 if unknown. */
static inline bool gemm_packs_b(const gemm_kernel *kernel, int64_t rows, int64_t columns)
{
    return (kernel->packs & GEMM_PACKS_B) != 0 && (rows < 0 || rows >= (int64_t)kernel->pack_rows) &&
           (columns < 0 || columns >= (int64_t)kernel->pack_columns);
}

static inline const gemm_kernel *gemm_kernel_for(const kit_node *node, uint32_t type)
{
    const gemm_engine *engine = node->provider;
    return engine->kernel(engine, type);
}

typedef struct gemm_operand gemm_operand;

/* Packs lines [line, line_end) and k [k0, k1) of one batch into panels of `width` lines at out (64-byte aligned).
 * Panels are packed in order; packing B may write up to 64 bytes past the end of the last one. */
typedef void (*gemm_pack_fn)(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0,
                             int64_t k1, uint32_t width, void *out);

/* An operand, A or B: packed already, or packed by `pack`. */
struct gemm_operand {
    const void *packed;    /* whole matrices, block of k after block; batch b is at which(b) * packed_stride */
    int64_t packed_stride; /* bytes from one matrix to the next; 0 = the same for all */
    gemm_pack_fn pack;     /* gemm_strided_pack(), or the caller's function */
    const void *data;    /* this field and the following ones are for pack(); batch b is at which(b) * matrix_stride */
    int64_t line_stride; /* elements between lines and between steps of k */
    int64_t k_stride;
    int64_t matrix_stride; /* elements from one matrix to the next; 0 = the same for all */
    const int64_t *which;  /* [batch] the matrix index of each batch; NULL: the identity */
    double scale;          /* GEMM_F32 and F64: factor applied while packing; 0 means 1 */
    const void *zero;      /* GEMM_S16: zero points to subtract, in the operand's dtype; NULL = 0 */
    int64_t zero_stride;   /* 0: one for all lines; 1: one per line */
    int64_t zero_matrix_stride;
    bool in_place; /* B only: rows along n are contiguous and of the kernel's type, so B may be read unpacked */
    const void *user;
};

static inline int64_t gemm_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t gemm_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}
static inline int64_t gemm_round_up(int64_t a, int64_t b)
{
    return gemm_ceil_div(a, b) * b;
}
static inline uint64_t gemm_align(uint64_t bytes) /* to 64 */
{
    return (bytes + 63) & ~UINT64_C(63);
}

static inline int64_t gemm_matrix_index(const gemm_operand *operand, int64_t batch)
{
    return operand->which != NULL ? operand->which[batch] : batch;
}

/* The GEMM_* type for an element type, on any CPU; GEMM_TYPE_COUNT if there is none. 8-bit integers: GEMM_S16. */
uint32_t gemm_type_of(inlay_dtype dtype);
/* The same for the node's engine and matrices that are neither scaled nor converted: GEMM_BF16 for bfloat16 if the
 * engine has a kernel for it. */
static inline uint32_t gemm_type_for(const kit_node *node, inlay_dtype dtype)
{
    return dtype == INLAY_BFLOAT16 && gemm_kernel_for(node, GEMM_BF16) != NULL ? GEMM_BF16 : gemm_type_of(dtype);
}
/* The packing function for strided matrices of dtype for kernels of `type`; NULL if unsupported. F32: float,
 * float16, bfloat16. F64: double, and float. U32, U64: integers of that size. S16: int8, uint8. BF16: bfloat16. */
gemm_pack_fn gemm_strided_pack(uint32_t type, inlay_dtype dtype);

/* A rectangle of C: rows [i0, i1) and columns [j0, j1) of a batch; c is its first element. */
struct gemm_tile {
    int64_t batch, i0, i1, j0, j1;
    void *c;
    int64_t c_stride; /* elements between rows */
};
typedef void (*gemm_tile_hook)(void *user, const gemm_tile *tile);

struct gemm_job {
    const gemm_kernel *kernel;
    int64_t batch, m, n, k;
    gemm_operand a, b;
    bool c_in_workspace; /* tiles are computed in the workspace, and finish() stores them */
    void *c;             /* otherwise: sums, contiguous along n */
    int64_t c_stride;    /* elements between rows */
    int64_t c_batch_stride;
    gemm_tile_hook init;   /* optional: writes the initial sums (a bias); default 0 */
    gemm_tile_hook finish; /* optional: is called with each finished tile */
    void *init_user;
    void *finish_user;
    /* Set by gemm_plan(). */
    int64_t tile_m, tile_n;
    uint64_t pack_bytes;   /* the part of thread_bytes that the kernel's multiply() uses, which comes first */
    uint64_t thread_bytes; /* workspace of one thread, a multiple of 64 */
};

/* Stores the job's sums in output, a dense [batch, m, n] tensor of dtype: directly if it is the kernel's type,
 * otherwise (float16, bfloat16) through *out, which must live as long as the job. May be called again with another
 * output. */
typedef struct gemm_half_output {
    void *data;
    inlay_dtype dtype;
    int64_t m, n;
} gemm_half_output;
void gemm_set_output(gemm_job *job, gemm_half_output *out, inlay_dtype dtype, void *output);

/* Depth of a block of k for a kernel, both for packing and for computing. */
int64_t gemm_depth(const gemm_kernel *kernel, int64_t k);
/* Bytes of a packed operand with `lines` lines; false on overflow. */
bool gemm_packed_bytes(const gemm_kernel *kernel, uint32_t width, int64_t lines, int64_t k, uint64_t *out_bytes);
/* Packs each of the `matrices` in constant input `input`, block of k after block, into memory that the host caches
 * between sessions if possible. Strides, zero points and pack function of *operand must be set; sets packed and
 * packed_stride. The constant is read piecewise, at any alignment, and dropped. Call only in prepare. */
INLAY_NODISCARD inlay_status gemm_pack_constant(const kit_node *node, uint32_t input, const gemm_kernel *kernel,
                                                uint32_t width, gemm_operand *operand, int64_t matrices, int64_t lines,
                                                int64_t k, kit_pack *out_pack, inlay_diag *diag);

/* Chooses tiles for a thread count. Call in shape(), after all fields except pointers to data are set. run() sets the
 * pointers in a copy of the job. */
void gemm_plan(gemm_job *job, uint32_t threads);
/* As gemm_plan(), with given tile sizes: multiples of mr and nr. */
void gemm_plan_tiles(gemm_job *job, int64_t tile_m, int64_t tile_n);
/* Workspace of gemm_run() for a thread count; false on overflow. */
bool gemm_workspace(const gemm_job *job, uint32_t threads, uint64_t *out_bytes);
/* Computes all batches on the thread pool. workspace: gemm_workspace() bytes, 64-byte aligned. */
inlay_status gemm_run(const kit_call *call, const gemm_job *job, void *workspace);
/* Computes one batch on the calling thread; planned for one thread. workspace: job->thread_bytes, 64-byte aligned. */
void gemm_run_serial(const gemm_job *job, int64_t batch, void *workspace);
/* Computes one tile into tile->c, at tile->c_stride. i0 and j0 are multiples of mr and nr. The tile is at most as
 * large as planned (in rows only if A is packed while computing). */
void gemm_run_tile(const gemm_job *job, gemm_tile *tile, void *workspace);
#endif
