/* gemm.h - the blocked matrix product that MatMul, Conv, LSTM, Attention and their relatives stand on.
 *
 *     C[m, n] = sum over k of A[m, k] * B[k, n]        for `batch` independent products
 *
 * It is built as Goto and van de Geijn describe ("Anatomy of High-Performance Matrix Multiplication"): a microkernel
 * keeps a block of mr x nr sums in registers and reads A and B from panels that were packed for it. Around it, a job
 * describes the product: its sizes, where A and B come from, where C goes. A tile is a rectangle of C that one thread
 * computes from start to end; tiles share nothing.
 *
 * What multiplies is an engine (gemm_engine): the microkernels of the reference provider, or a BLAS library. The
 * operators that are products (products.def) are written once, for any engine.
 *
 * A and B are symmetrical: both are sets of *lines* along k (rows of A, columns of B), packed as panels of `width`
 * lines (mr for A, nr for B): panel, then k, then line; lines beyond the last are zero. k is cut into blocks of kc, and
 * a packed matrix holds block after block. Constants are packed once (gemm_pack_constant); the rest tile by tile, by a
 * function that may read any layout (strides, half precision, the windows of a convolution).
 *
 * Nothing here allocates: gemm_plan says how much workspace a thread needs. */
#ifndef GEMM_H
#define GEMM_H
#include "inlay/kit.h"
#include <math.h>

/* What is multiplied and summed. */
enum {
    GEMM_F32 = 0, /* float; also for float16 and bfloat16, which are converted while packing */
    GEMM_F64 = 1, /* double */
    GEMM_U32 = 2, /* 32-bit integers, signed or not: they wrap alike */
    GEMM_U64 = 3, /* 64-bit integers */
    GEMM_S16 = 4, /* int16_t products summed in int32_t: 8-bit integers less their zero point */
    GEMM_TYPE_COUNT = 5
};

enum { GEMM_MAX_MR = 8, GEMM_MAX_NR = 48 }; /* lines of a panel, of microkernels */
enum { GEMM_MAX_WIDTH = 512 };              /* of any kernel */

/* Adds (or writes, when !add) one tile of sums to c: rows x cols elements, rows at c_stride. a: packed panel. b: packed
 * panel, or rows of a matrix in place; b_stride elements from one k (k pair for S16) to the next. */
typedef void (*gemm_tile_fn)(int64_t kc, const void *a, const void *b, int64_t b_stride, void *c, int64_t c_stride,
                             int64_t cols, bool add);

typedef struct gemm_job gemm_job;
typedef struct gemm_tile gemm_tile;

/* How one type is multiplied: the microkernels of an instruction set, or a library. */
enum { GEMM_PACKS_A = 1, GEMM_PACKS_B = 2 };
typedef struct gemm_kernel gemm_kernel;
typedef struct product_size product_size;
struct gemm_kernel {
    const char *isa;    /* "avx512", "avx2", "neon", "c", or the library's name */
    uint32_t mr, nr;    /* lines of A's and B's panels; tiles are made of whole ones. Microkernels: nr = 3 * lanes */
    uint32_t lanes;     /* microkernels: sums in one vector register */
    uint32_t in_bytes;  /* of a packed element */
    uint32_t acc_bytes; /* of a sum */
    uint32_t k_step;    /* packed k is rounded up to a multiple: 2 for S16 */
    const gemm_tile_fn *tile; /* microkernels, [mr * 3]: tile[3 * (rows - 1) + vectors - 1] */
    uint32_t depth;           /* k of a packed block, at most */
    uint32_t chain; /* terms of a sum that are added one after the other; 0: as many as a block has (gemm_chain) */
    uint32_t packs; /* GEMM_PACKS_*: constants that are packed once (gemm_pack_constant), not read as they lie */
    uint32_t pack_rows, pack_columns; /* B is packed only when C has so many */
    /* The sizes of the job's tiles for so many threads. */
    void (*plan)(const gemm_job *job, uint32_t threads, int64_t *out_tile_m, int64_t *out_tile_n);
    /* Workspace that multiply needs for a tile of the job's size. */
    uint64_t (*pack_bytes)(const gemm_job *job);
    /* Sets (or, when job->init is set, adds to) the sums of a tile; job->k > 0. workspace: pack_bytes, aligned. */
    void (*multiply)(const gemm_job *job, const gemm_tile *tile, void *workspace);
    /* Estimated nanoseconds of one product of a batch, on one thread, see product_cost.h. */
    double (*product_ns)(const gemm_kernel *kernel, const product_size *size);
    const void *user; /* the engine's own */
};

/* How much of k is summed before it is added to C. Precision strict sets chain: the error of a sum grows with the root
 * of how many terms are added one after the other, and of how many parts of the sum. */
enum { GEMM_STRICT_CHAIN = 64 };
static inline int64_t gemm_chain(const gemm_kernel *kernel, int64_t k)
{
    const int64_t even = (int64_t)(2 * sqrt((double)k));

    return kernel->chain == 0 ? k : even > kernel->chain ? even : kernel->chain;
}

/* Where kernels come from: the first member of what kit_node.provider points to, so that the operators built on
 * products serve any provider. kernel: the best one for a type on this machine. */
typedef struct gemm_engine gemm_engine;
struct gemm_engine {
    const gemm_kernel *(*kernel)(const gemm_engine *self, uint32_t type);
};
/* Is a constant B to be packed? rows, columns: of C, -1 when not known. */
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

/* Where A or B comes from. Either it is packed already, or pack makes panels of it. */
struct gemm_operand {
    const void *packed;    /* whole, block of k after block; batch b is at which(b) * packed_stride */
    int64_t packed_stride; /* bytes from one matrix to the next; 0 = the same for all */
    gemm_pack_fn pack;     /* gemm_strided_pack(), or the caller's own */
    const void *data;      /* the rest is for pack; batch b is at which(b) * matrix_stride */
    int64_t line_stride;   /* elements between lines and between steps of k */
    int64_t k_stride;
    int64_t matrix_stride; /* elements from one matrix to the next; 0 = the same for all */
    const int64_t *which;  /* [batch] the matrix of each batch; NULL: the b-th */
    double scale;          /* GEMM_F32 and F64: factor applied while packing; 0 reads as 1 */
    const void *zero;      /* GEMM_S16: zero points to subtract, in the operand's dtype; NULL = 0 */
    int64_t zero_stride;   /* 0: one for all lines; 1: one a line */
    int64_t zero_matrix_stride;
    bool in_place; /* B only: rows along n are dense and of the kernel's type, so it may be read unpacked */
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

static inline int64_t gemm_which(const gemm_operand *operand, int64_t batch)
{
    return operand->which != NULL ? operand->which[batch] : batch;
}

/* What an element type is multiplied as; GEMM_TYPE_COUNT when there are no kernels for it. 8-bit integers: GEMM_S16. */
uint32_t gemm_type_of(inlay_dtype dtype);
/* The packing function for strided matrices of dtype as input to kernels of `type`; NULL if they do not go together.
 * F32: float, float16, bfloat16. F64: double, and float. U32, U64: integers of that size. S16: int8, uint8. */
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
    bool c_in_workspace; /* each tile of sums is made in the workspace, and finish stores it */
    void *c;             /* otherwise: sums, dense along n */
    int64_t c_stride;    /* elements between rows */
    int64_t c_batch_stride;
    gemm_tile_hook init;   /* optional: writes what the sums start from (a bias); otherwise they start from 0 */
    gemm_tile_hook finish; /* optional: sees the finished tile */
    void *init_user;
    void *finish_user;
    /* Filled in by gemm_plan. */
    int64_t tile_m, tile_n;
    uint64_t pack_bytes;   /* of it, in front, what the kernel's multiply needs */
    uint64_t thread_bytes; /* workspace of one thread, a multiple of 64 */
};

/* Makes the job's sums end up in y, a dense [batch, m, n] tensor of dtype: directly where it is the kernel's type;
 * otherwise (float16, bfloat16) through out, which must live as long as the job. May be called again with another y. */
typedef struct gemm_half_output {
    void *data;
    inlay_dtype dtype;
    int64_t m, n;
} gemm_half_output;
void gemm_set_output(gemm_job *job, gemm_half_output *out, inlay_dtype dtype, void *output);

/* Depth of a block of k, for a kernel; the same for packing and computing. */
int64_t gemm_depth(const gemm_kernel *kernel, int64_t k);
/* Bytes of a whole packed operand with that many lines; false on overflow. */
bool gemm_packed_bytes(const gemm_kernel *kernel, uint32_t width, int64_t lines, int64_t k, uint64_t *out_bytes);
/* Packs each of the `matrices` in constant input `input`, block of k after block, into one block of memory that the
 * host keeps between sessions where it can; *operand, whose strides, zero points and pack function are set, reads from
 * there: packed and packed_stride. The constant is read piece by piece, from any address, and dropped. Only in
 * prepare. */
INLAY_NODISCARD inlay_status gemm_pack_constant(const kit_node *node, uint32_t input, const gemm_kernel *kernel,
                                                uint32_t width, gemm_operand *operand, int64_t matrices, int64_t lines,
                                                int64_t k, kit_pack *out_pack, inlay_diag *diag);

/* Cuts the job into tiles for so many threads, in shape: after everything but pointers to data is set. run then works
 * with a copy of the job, in which it sets those. */
void gemm_plan(gemm_job *job, uint32_t threads);
/* As gemm_plan, with tiles of the caller's choice: multiples of mr and nr. */
void gemm_plan_tiles(gemm_job *job, int64_t tile_m, int64_t tile_n);
/* Workspace for gemm_run with so many threads; false on overflow. */
bool gemm_workspace(const gemm_job *job, uint32_t threads, uint64_t *out_bytes);
/* Computes all batches on the pool. workspace: gemm_workspace() bytes, 64-byte aligned. */
inlay_status gemm_run(const kit_call *call, const gemm_job *job, void *workspace);
/* Computes one batch on the calling thread, planned for one thread. workspace: job->thread_bytes, 64-byte aligned. */
void gemm_run_serial(const gemm_job *job, int64_t batch, void *workspace);
/* Computes one tile into tile->c, at tile->c_stride. i0 and j0 are multiples of mr and nr; the tile is no larger than
 * planned (in rows only when A is packed while computing). */
void gemm_run_tile(const gemm_job *job, gemm_tile *tile, void *workspace);
#endif
