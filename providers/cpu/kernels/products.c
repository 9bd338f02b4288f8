/* Kernels of products: where they run, and what they are expected to take on cores with AVX-512. */
#include "choice/kernels.h"
#include "matrix/sgemm.h"
#include "weights/sparse_weights.h"

#define OWN_FLOPS_PER_NS 250.0
#define SPARSE_FLOPS_PER_NS 120.0 /* of blocks that are not zero, turning of rows included */
#define FOURS_FLOPS_PER_NS 265.0  /* of two of four, zeros included */
#define TURNED_PER_NS 5.0         /* elements of their rows */
#define INNER_FLOPS_PER_NS 228.0
#define PLAIN_FLOPS_PER_NS 200.0
#define BATCHED_FLOPS_PER_NS 205.0
#define MATMUL_FLOPS_PER_NS 225.0
#define GELU_NS 0.15            /* an element, more than behind our own products */
#define LOOP_NS 1000.0          /* threads are started and waited for */
#define START_NS 150.0          /* of our own loops */
#define CALL_NS 2500.0          /* of oneDNN's, with what it prepares */
#define FAR_BYTES_PER_NS 30.0   /* weights from memory */
#define NEAR_BYTES_PER_NS 105.0 /* from the caches */
#define NEAR_BYTES 1000000.0
enum { BLOCK_LINES = 64, MANY_BLOCKS = 64 }; /* of results, for threads */
#define COPY_BYTES_PER_NS 12.0               /* a matrix that is put into panels for one run */

void kn_measure_product(const rg_build *b, kn_product *p)
{
    const rg_op *op = b->op;
    const uint32_t y = op->out[0], rank = b->ranks[y], a = b->ranks[op->in[0]];
    const int64_t *a_dims = b->dims[op->in[0]], *dims = b->dims[y];
    const rg_place *w = &b->places[op->in[1]];

    *p = (kn_product){
        .packed = rg_is_packed(b, op), .turned = op->product.trans_b, .rank = rank, .batch = 1, .m = 1, .n = 1
    };
    p->k = a_dims[a - (op->product.trans_a ? 2 : 1)];
    if (rank >= 2) {
        p->m = dims[rank - 2];
        p->n = dims[rank - 1];
    }
    for (uint32_t d = 0; d + 2 < rank; d++)
        p->batch *= dims[d];
    if (p->packed) {
        p->m *= p->batch;
        p->batch = 1;
    }
    if (w->buffer != INLAY_NONE && !rg_md_is_blocked(&w->md) && w->md.ndims >= 2)
        p->turned = p->turned != (w->md.strides[w->md.ndims - 1] != 1);
}

static double weights_bytes(const kn_product *p)
{
    return 4.0 * (double)p->n * (double)p->k;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* The product itself at so many operations in a nanosecond: rows are done by twelves or so, columns by vectors, and
 * weights come no faster than memory gives them. */
static double work_ns(const kn_product *p, double rate)
{
    const double bytes = weights_bytes(p), columns = (double)((p->n + SG_LANES - 1) / SG_LANES * SG_LANES);
    const double flops = 2.0 * (double)p->batch * ((double)p->m + 1) * columns * (double)p->k;
    const double stream = (double)p->batch * bytes / (bytes > NEAR_BYTES ? FAR_BYTES_PER_NS : NEAR_BYTES_PER_NS);

    return larger(flops / rate, stream) / KN_THREADS;
}

/* ------------------------------------------------------------------ by a constant matrix */

bool kn_packed_runs(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)group, (void)out_why;
    return c->p.packed && b->state->sgemm != NULL;
}

/* What Gelu takes longer by itself, or in oneDNN's kernels. */
static double gelus_ns(const rg_build *b, const rg_group *group)
{
    double gelus = 0;

    for (uint32_t p = 0; p < group->post_count; p++)
        gelus += group->posts[p].kind == RG_POST_ELTWISE && rg_is_gelu(&group->posts[p].eltwise);
    return gelus * GELU_NS * (double)rg_count(b, group->out) / KN_THREADS;
}

double kn_packed_ns(const rg_build *b, const rg_group *group, const kn_case *c)
{
    (void)b, (void)group;
    return START_NS + LOOP_NS + work_ns(&c->p, OWN_FLOPS_PER_NS);
}

bool kn_paired_runs(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    return kn_pairs_wanted(b, out_why) && kn_packed_runs(b, group, c, out_why);
}

double kn_paired_ns(const rg_build *b, const rg_group *group, const kn_case *c)
{
    const double work = kn_pairs_work_ns(b, (double)c->p.m, c->p.k, c->p.n);
    const double stream = weights_bytes(&c->p) / FAR_BYTES_PER_NS;

    (void)b, (void)group;
    return START_NS + LOOP_NS + larger(work, stream) / KN_THREADS;
}

/* Sums without zeros are added in another order than those with them, one row in another than many. */
bool kn_sparse_runs(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    return kn_packed_runs(b, group, c, out_why) && !b->state->reproducible && !b->state->bf16 &&
           (sparse_blocks_of(b, b->op) >= 0 || (c->p.m <= FR_MOST_ROWS && sparse_fours_of(b, b->op)));
}

double kn_sparse_ns(const rg_build *b, const rg_group *group, const kn_case *c)
{
    const rg_constant *w = &b->c->constants[b->c->values[b->op->in[1]].constant];
    const bool fours = w->sparse_blocks < 0;
    const double blocks = (double)(w->sparse_blocks - 1) * SP_WIDTH / ((double)c->p.n * (double)c->p.k);
    const double share = fours ? 1 : blocks;
    const double flops = 2.0 * (double)c->p.batch * ((double)c->p.m + 1) * (double)c->p.n * (double)c->p.k * share;
    const double bytes = weights_bytes(&c->p) * (fours ? FR_SHARE : share * (1 + 1.0 / SP_WIDTH));
    const double stream = bytes / (bytes > NEAR_BYTES ? FAR_BYTES_PER_NS : NEAR_BYTES_PER_NS);

    (void)group;
    return START_NS + LOOP_NS + larger(flops / (fours ? FOURS_FLOPS_PER_NS : SPARSE_FLOPS_PER_NS), stream) / KN_THREADS;
}

/* Threads share a long sum in it, so what comes of it depends on how many there are: floats have it when asked for. */
bool kn_inner_runs(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)group, (void)out_why;
    return c->p.packed && (b->state->bf16 || b->state->kernel == KN_INNER);
}

double kn_inner_ns(const rg_build *b, const rg_group *group, const kn_case *c)
{
    return CALL_NS + LOOP_NS + work_ns(&c->p, INNER_FLOPS_PER_NS) + gelus_ns(b, group);
}

/* oneDNN's on the matrix as it lies, block by block. */
bool kn_plain_runs(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)group, (void)out_why;
    return c->p.packed && !b->state->bf16 && !b->state->alone;
}

double kn_plain_ns(const rg_build *b, const rg_group *group, const kn_case *c)
{
    return CALL_NS + LOOP_NS + work_ns(&c->p, PLAIN_FLOPS_PER_NS) + gelus_ns(b, group) +
           weights_bytes(&c->p) / COPY_BYTES_PER_NS / KN_THREADS;
}

/* ------------------------------------------------------------------ of what is computed */

bool kn_batched_runs(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    (void)group, (void)out_why;
    return !c->p.packed && b->state->sgemm != NULL && c->p.rank >= 2 && b->ranks[b->op->in[0]] >= 2 &&
           b->ranks[b->op->in[1]] >= 2 && c->p.m > 0 && c->p.n > 0 && c->p.k > 0;
}

double kn_batched_ns(const rg_build *b, const rg_group *group, const kn_case *c)
{
    const kn_product *p = &c->p;
    const double panels = (double)p->batch * weights_bytes(p) / COPY_BYTES_PER_NS;
    const double each = (double)p->batch * START_NS + (p->turned && p->m > SG_FEW ? panels : 0);

    (void)b, (void)group;
    return LOOP_NS + each / KN_THREADS + work_ns(p, BATCHED_FLOPS_PER_NS);
}

/* Where there are no loops of our own. */
bool kn_matmul_runs(rg_build *b, const rg_group *group, const kn_case *c, const char **out_why)
{
    const bool nothing = c->p.batch == 0 || c->p.m == 0 || c->p.n == 0; /* then it calls nobody */

    return !c->p.packed && (nothing || !b->state->alone) &&
           (b->state->kernel == KN_MATMUL || !kn_batched_runs(b, group, c, out_why));
}

/* oneDNN puts the second operand into blocks, which shows where it is all there is to do. */
double kn_matmul_ns(const rg_build *b, const rg_group *group, const kn_case *c)
{
    const kn_product *p = &c->p;
    const double blocks = (double)p->batch * weights_bytes(p) / (2 * COPY_BYTES_PER_NS);

    (void)b, (void)group;
    return CALL_NS + LOOP_NS + ((double)p->batch * 60 + (p->m <= SG_FEW ? blocks : 0)) / KN_THREADS +
           work_ns(p, MATMUL_FLOPS_PER_NS);
}
