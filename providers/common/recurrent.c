/* LSTM: ONNX 1, 7, 14, 22. GRU: ONNX 1, 3, 7, 14, 22. RNN: ONNX 1, 7, 14, 22. float16 and bfloat16 are computed in
 * float.
 *
 * The input's share of all gates at all steps is one product, X * W' + bias. Then each step adds H * R' to a row of it;
 * R is packed once. Directions run side by side. */
#include "args.h"
#include "convert.h"
#include "gemm.h"
#include "product_cost.h"
#include "products.h"
#include "vecmath.h"
#include <math.h>
#include <stdlib.h>
#include <strings.h>

enum { CELL_RNN, CELL_GRU, CELL_LSTM };
enum {
    ACT_TANH, ACT_SIGMOID, ACT_RELU, ACT_AFFINE, ACT_LEAKY_RELU, ACT_THRESHOLDED_RELU, ACT_SCALED_TANH,
    ACT_HARD_SIGMOID, ACT_ELU, ACT_SOFTSIGN, ACT_SOFTPLUS, ACT_COUNT
};

typedef struct activation {
    uint32_t kind;
    double alpha, beta;
} activation;

/* Names, and the defaults of alpha and beta where there are any (ONNX RNN-7). */
static const struct activation_row {
    const char *name;
    bool has_alpha, has_beta;
    double alpha, beta;
} activation_rows[ACT_COUNT] = {
    [ACT_TANH] = { "Tanh", false, false, 0, 0 },
    [ACT_SIGMOID] = { "Sigmoid", false, false, 0, 0 },
    [ACT_RELU] = { "Relu", false, false, 0, 0 },
    [ACT_AFFINE] = { "Affine", true, true, 1, 0 },
    [ACT_LEAKY_RELU] = { "LeakyRelu", true, false, 0.01, 0 },
    [ACT_THRESHOLDED_RELU] = { "ThresholdedRelu", true, false, 1, 0 },
    [ACT_SCALED_TANH] = { "ScaledTanh", true, true, 1, 1 },
    [ACT_HARD_SIGMOID] = { "HardSigmoid", true, true, 0.2, 0.5 },
    [ACT_ELU] = { "Elu", true, false, 1, 0 },
    [ACT_SOFTSIGN] = { "Softsign", false, false, 0, 0 },
    [ACT_SOFTPLUS] = { "Softplus", false, false, 0, 0 },
};

static const struct cell_row {
    const char *name;
    int64_t gates;
    uint32_t functions;
    uint32_t defaults[3];
} cell_rows[] = {
    [CELL_RNN] = { "RNN", 1, 1, { ACT_TANH, 0, 0 } },
    [CELL_GRU] = { "GRU", 3, 2, { ACT_SIGMOID, ACT_TANH, 0 } },
    [CELL_LSTM] = { "LSTM", 4, 3, { ACT_SIGMOID, ACT_TANH, ACT_TANH } },
};

typedef struct recurrent_state {
    uint32_t cell, functions;
    int64_t gates;
    uint32_t direction; /* 0 forward, 1 reverse, 2 bidirectional */
    activation f[6];    /* functions of a direction, then of the other */
    bool clips, input_forget, linear_before_reset;
    double clip;
    int64_t layout;
    const gemm_kernel *kernel;
    gemm_pack_fn pack;
    /* Packed constants, [direction]; NULL when not constant. The candidate of a GRU has a product of its own. */
    gemm_operand w[2], r[2], candidate[2];
    void *memory[6];
} recurrent_state;

/* Is R packed, so that all steps read it in the best order? */
static bool packs_r(const recurrent_state *s)
{
    return gemm_packs_b(s->kernel, -1, -1);
}

void product_recurrent_release(void *state)
{
    recurrent_state *s = state;

    for (uint32_t i = 0; s != NULL && i < KIT_COUNT(s->memory); i++)
        free(s->memory[i]);
    free(s);
}

/* ------------------------------------------------------------------ attributes */

static inlay_status find_activation(inlay_str name, uint32_t *out, inlay_diag *diag)
{
    for (uint32_t i = 0; i < ACT_COUNT; i++)
        if (strlen(activation_rows[i].name) == name.bytes &&
            strncasecmp(activation_rows[i].name, name.data, name.bytes) == 0) {
            *out = i;
            return INLAY_OK;
        }
    return inlay_fail(diag, INLAY_INVALID_MODEL, "there is no activation '%.*s'",
                      (int)(name.bytes < 64 ? name.bytes : 64), name.data);
}

/* Parameter i of an activation: by position when there is one for each; otherwise functions that take one draw them in
 * order. */
static double parameter(const inlay_attr_info *list, uint32_t i, uint32_t total, bool takes, uint32_t *next,
                        double otherwise)
{
    if (list == NULL || !takes)
        return otherwise;
    if (list->count == total)
        return (double)list->floats[i];
    return *next < list->count ? (double)list->floats[(*next)++] : otherwise;
}

static inlay_status read_activations(const kit_node *node, recurrent_state *s, inlay_diag *diag)
{
    const inlay_attr_info *names = kit_attr(node->info, "activations");
    const inlay_attr_info *alphas = kit_attr(node->info, "activation_alpha"),
                          *betas = kit_attr(node->info, "activation_beta");
    uint32_t directions = s->direction == 2 ? 2 : 1, total = directions * s->functions, next_alpha = 0, next_beta = 0;

    if (names != NULL && (names->kind != INLAY_ATTR_STRINGS || names->count == 0))
        names = NULL;
    if (names != NULL && names->count < total)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "activations names %u functions; %u are needed", names->count,
                          total);
    if (alphas != NULL && alphas->kind != INLAY_ATTR_FLOATS)
        alphas = NULL;
    if (betas != NULL && betas->kind != INLAY_ATTR_FLOATS)
        betas = NULL;
    for (uint32_t i = 0; i < total; i++) {
        uint32_t kind = cell_rows[s->cell].defaults[i % s->functions];
        const struct activation_row *row;
        inlay_status status = names != NULL ? find_activation(names->strings[i], &kind, diag) : INLAY_OK;
        if (status != INLAY_OK)
            return status;
        row = &activation_rows[kind];
        s->f[i] = (activation){ kind, parameter(alphas, i, total, row->has_alpha, &next_alpha, row->alpha),
                                parameter(betas, i, total, row->has_beta, &next_beta, row->beta) };
    }
    return INLAY_OK;
}

static inlay_status read_attributes(const kit_node *node, recurrent_state *s, inlay_diag *diag)
{
    const char *direction = kit_attr_string(node->info, "direction", "forward");

    for (uint32_t i = 0; i < KIT_COUNT(cell_rows); i++)
        if (strcmp(node->info->op_type.data, cell_rows[i].name) == 0)
            s->cell = i;
    s->gates = cell_rows[s->cell].gates;
    s->functions = cell_rows[s->cell].functions;
    /* GRU-1's default is misspelt "foward". */
    if (strcmp(direction, "reverse") == 0)
        s->direction = 1;
    else if (strcmp(direction, "bidirectional") == 0)
        s->direction = 2;
    else if (strcmp(direction, "forward") != 0 && strcmp(direction, "foward") != 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "direction is '%s'; use forward, reverse or bidirectional",
                          direction);
    s->clip = kit_attr_float(node->info, "clip", 0);
    s->clips = kit_attr(node->info, "clip") != NULL && s->clip > 0;
    s->input_forget = kit_attr_int(node->info, "input_forget", 0) != 0;
    s->linear_before_reset = kit_attr_int(node->info, "linear_before_reset", 0) != 0;
    s->layout = kit_attr_int(node->info, "layout", 0);
    return read_activations(node, s, diag);
}

/* ------------------------------------------------------------------ prepare */

/* Packs `lines` rows of direction d of constant input `input`, [directions, rows, depth], from row `first` on. */
static inlay_status pack_rows(const kit_node *node, recurrent_state *s, uint32_t input, int64_t d, int64_t first,
                              int64_t lines, gemm_operand *operand, void **memory, inlay_diag *diag)
{
    const inlay_value_info *w = kit_input(node, input);
    int64_t rows = w->dims[1].value, depth = w->dims[2].value;
    size_t width = inlay_dtype_bits(w->dtype) / 8;
    const char *data = kit_constant(node, input);

    if (data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to align constant weights");
    operand->pack = s->pack;
    operand->data = data + (size_t)((d * rows + first) * depth) * width;
    operand->line_stride = depth;
    operand->k_stride = 1;
    return gemm_pack_constant(s->kernel, s->kernel->nr, operand, 1, lines, depth, memory, diag);
}

/* Are these the constant weights of a whole node, [directions, gates * hidden, depth]? */
static bool is_constant_weights(const kit_node *node, const recurrent_state *s, uint32_t input, int64_t hidden)
{
    const inlay_value_info *w = kit_input(node, input);

    return kit_is_constant(node, input) && w->rank == 3 && w->dims[0].value == (s->direction == 2 ? 2 : 1) &&
           w->dims[1].value == s->gates * hidden && hidden > 0 && w->dims[2].value > 0;
}

static inlay_status pack_weights(const kit_node *node, recurrent_state *s, inlay_diag *diag)
{
    const inlay_value_info *r = kit_input(node, 2);
    int64_t directions = s->direction == 2 ? 2 : 1, hidden = r->rank == 3 ? r->dims[2].value : 0;
    int64_t first = s->cell == CELL_GRU ? 2 * hidden : s->gates * hidden;
    inlay_status status = INLAY_OK;

    if (!packs_r(s))
        return INLAY_OK;
    if (is_constant_weights(node, s, 1, hidden)) {
        for (int64_t d = 0; d < directions; d++)
            INLAY_TRY(pack_rows(node, s, 1, d, 0, s->gates * hidden, &s->w[d], &s->memory[d], diag));
        kit_drop_constant(node, 1);
    }
    if (is_constant_weights(node, s, 2, hidden)) {
        for (int64_t d = 0; d < directions; d++) {
            INLAY_TRY(pack_rows(node, s, 2, d, 0, first, &s->r[d], &s->memory[2 + d], diag));
            if (s->cell == CELL_GRU)
                INLAY_TRY(pack_rows(node, s, 2, d, first, hidden, &s->candidate[d], &s->memory[4 + d], diag));
        }
        kit_drop_constant(node, 2);
    }
done:
    return status;
}

inlay_status product_recurrent_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype dtype = kit_input_dtype(node, 0);
    recurrent_state *s = NULL;
    inlay_status status;

    INLAY_TRY(arg_state(sizeof *s, (void **)&s, diag));
    s->kernel = gemm_kernel_for(node, gemm_type_of(dtype));
    s->pack = gemm_strided_pack(gemm_type_of(dtype), dtype);
    INLAY_TRY(read_attributes(node, s, diag));
    INLAY_TRY(pack_weights(node, s, diag));
    *out_state = s;
    s = NULL;
done:
    product_recurrent_release(s);
    return status;
}

/* ------------------------------------------------------------------ shapes */

typedef struct recurrent_plan {
    int64_t steps, batch, inputs, hidden, directions;
    gemm_job projection; /* X * W' of one direction */
    gemm_job recurrent;  /* H * R' of one step, in a GRU without the candidate */
    gemm_job candidate;
    uint64_t packed_bytes, candidate_bytes; /* R packed while running; 0 when it is constant */
    uint64_t projection_bytes;              /* workspace of that product */
    /* Room of a direction, and where its parts are. */
    uint64_t direction_bytes, projected_at, gates_at, h_at, c_at, extra_at, peephole_at, bias_at, input_bias_at,
        gemm_at, packed_at, candidate_at;
} recurrent_plan;

static inlay_status check_shapes(const recurrent_state *s, const kit_plan *plan, recurrent_plan *p, inlay_diag *diag)
{
    const kit_tensor *x = &plan->in[0], *w = &plan->in[1], *r = &plan->in[2];
    int64_t want;

    if (x->rank != 3 || w->rank != 3 || r->rank != 3)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "X, W and R have ranks %u, %u and %u; each must be 3", x->rank,
                          w->rank, r->rank);
    p->directions = s->direction == 2 ? 2 : 1;
    p->steps = x->dims[s->layout != 0 ? 1 : 0];
    p->batch = x->dims[s->layout != 0 ? 0 : 1];
    p->inputs = x->dims[2];
    p->hidden = r->dims[2];
    if (p->hidden > INT32_MAX || w->dims[0] != p->directions || r->dims[0] != p->directions ||
        w->dims[1] != s->gates * p->hidden || r->dims[1] != s->gates * p->hidden || w->dims[2] != p->inputs)
        return inlay_fail(
            diag, INLAY_SHAPE_MISMATCH,
            "W is [%lld, %lld, %lld] and R [%lld, %lld, %lld]: they do not fit %lld directions, %lld gates and an "
            "input of %lld",
            (long long)w->dims[0], (long long)w->dims[1], (long long)w->dims[2], (long long)r->dims[0],
            (long long)r->dims[1], (long long)r->dims[2], (long long)p->directions, (long long)s->gates,
            (long long)p->inputs);
    const struct { uint32_t input; const char *name; int64_t count; } rows[] = {
        { 3, "B", p->directions * 2 * s->gates * p->hidden },
        { 4, "sequence_lens", p->batch },
        { 5, "initial_h", p->directions * p->batch * p->hidden },
        { 6, "initial_c", p->directions * p->batch * p->hidden },
        { 7, "P", p->directions * 3 * p->hidden },
    };
    for (uint32_t i = 0; i < KIT_COUNT(rows); i++)
        if (rows[i].input < plan->in_count && plan->in[rows[i].input].dtype != INLAY_UNDEFINED &&
            plan->in[rows[i].input].count != rows[i].count)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%s has %lld elements, not %lld", rows[i].name,
                              (long long)plan->in[rows[i].input].count, (long long)rows[i].count);
    for (uint32_t o = 0; o < plan->out_count; o++) {
        want = p->directions * p->batch * p->hidden * (o == 0 ? p->steps : 1);
        if (plan->out[o].dtype != INLAY_UNDEFINED && plan->out[o].count != want)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "output %u has %lld elements, not %lld", o,
                              (long long)plan->out[o].count, (long long)want);
    }
    return INLAY_OK;
}

/* A step's product: rows of `hidden` elements times packed R. It adds to what is in C. */
static void keep(void *user, const gemm_tile *tile)
{
    (void)user;
    (void)tile;
}

static void describe_step(gemm_job *job, const recurrent_state *s, const recurrent_plan *p, int64_t lines,
                          int64_t a_stride, int64_t c_stride)
{
    static const char somewhere;
    inlay_dtype sums = s->kernel->acc_bytes == 8 ? INLAY_DOUBLE : INLAY_FLOAT;

    *job = (gemm_job){ .kernel = s->kernel, .batch = 1, .m = p->batch, .n = lines, .k = p->hidden, .c_stride = c_stride,
                       .init = keep };
    job->a.pack = gemm_strided_pack(gemm_type_of(sums), sums);
    job->a.line_stride = a_stride;
    job->a.k_stride = 1;
    if (packs_r(s))
        job->b.packed = &somewhere;
    else
        job->b = (gemm_operand){ .pack = job->a.pack, .line_stride = p->hidden, .k_stride = 1 };
    gemm_plan(job, 1);
}

static bool take(uint64_t *at, uint64_t *total, int64_t count, uint64_t bytes)
{
    uint64_t all;

    *at = *total;
    return !__builtin_mul_overflow((uint64_t)count, bytes, &all) && all < UINT64_MAX / 4 &&
           !__builtin_add_overflow(*total, (all + 63) & ~UINT64_C(63), total) && *total < UINT64_MAX / 4;
}

static bool lay_out(const recurrent_state *s, recurrent_plan *p)
{
    uint64_t acc = s->kernel->acc_bytes, total = 0, gemm = p->recurrent.thread_bytes;
    int64_t width = s->gates * p->hidden, rows;

    gemm = gemm > p->candidate.thread_bytes ? gemm : p->candidate.thread_bytes;
    if (packs_r(s) && s->r[0].packed == NULL &&
        (!gemm_packed_bytes(s->kernel, s->kernel->nr, p->recurrent.n, p->hidden, &p->packed_bytes) ||
         (s->cell == CELL_GRU &&
          !gemm_packed_bytes(s->kernel, s->kernel->nr, p->hidden, p->hidden, &p->candidate_bytes))))
        return false;
    if (__builtin_mul_overflow(p->steps, p->batch, &rows) || __builtin_mul_overflow(rows, width, &rows) ||
        !take(&p->projected_at, &total, rows, acc) || !take(&p->gates_at, &total, p->batch * width, acc) ||
        !take(&p->h_at, &total, p->batch * p->hidden, acc) || !take(&p->c_at, &total, p->batch * p->hidden, acc) ||
        !take(&p->extra_at, &total, p->batch * p->hidden, acc) || !take(&p->peephole_at, &total, 3 * p->hidden, acc) ||
        !take(&p->bias_at, &total, p->hidden, acc) || !take(&p->input_bias_at, &total, width, acc) ||
        !take(&p->gemm_at, &total, 1, gemm) || !take(&p->packed_at, &total, 1, p->packed_bytes) ||
        !take(&p->candidate_at, &total, 1, p->candidate_bytes))
        return false;
    p->direction_bytes = total;
    return true;
}

inlay_status product_recurrent_shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const recurrent_state *s = state;
    recurrent_plan *p = calloc(1, sizeof *p);
    int64_t width;
    inlay_status status;

    plan->plan = p;
    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a recurrent layer");
    INLAY_TRY(check_shapes(s, plan, p, diag));
    width = s->gates * p->hidden;
    p->projection = (gemm_job){ .kernel = s->kernel, .batch = 1, .m = p->steps * p->batch, .n = width, .k = p->inputs,
                                .c_stride = width, .init = keep };
    p->projection.a = (gemm_operand){ .pack = s->pack, .line_stride = p->inputs, .k_stride = 1 };
    p->projection.b = s->w[0];
    p->projection.b.pack = s->pack;
    p->projection.b.line_stride = p->inputs;
    p->projection.b.k_stride = 1;
    gemm_plan(&p->projection, plan->max_threads);
    describe_step(&p->recurrent, s, p, s->cell == CELL_GRU ? 2 * p->hidden : width, p->hidden, width);
    if (s->cell == CELL_GRU)
        describe_step(&p->candidate, s, p, p->hidden, p->hidden, s->linear_before_reset ? p->hidden : width);
    if (!gemm_workspace(&p->projection, plan->max_threads, &p->projection_bytes) || !lay_out(s, p) ||
        __builtin_add_overflow(p->projection_bytes, p->direction_bytes * (uint64_t)p->directions,
                               &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "this recurrent layer is too large");
done:
    return status;
}

/* ------------------------------------------------------------------ run */

typedef struct recurrent_call recurrent_call;
struct recurrent_call {
    const kit_call *call;
    const recurrent_state *s;
    const recurrent_plan *p;
    char *direction_room;
    const void *recurrent[2], *candidate[2]; /* R, packed or as it is */
    int64_t (*lengths)(const recurrent_call *r, int64_t b);
};

static int64_t length_of(const recurrent_call *r, int64_t b)
{
    int64_t length;

    if (!kit_has_input(r->call, 4))
        return r->p->steps;
    length = ((const int32_t *)r->call->in[4].data)[b];
    return length < 0 ? 0 : length > r->p->steps ? r->p->steps : length;
}

#define T float
#define NAME(x) f32_##x
#define EXP vm_exp
#define TANH vm_tanh
#define SIGMOID vm_sigmoid
#define LOG1P vm_log1p
#define ABS vm_abs
#include "recurrent.inc"
#undef T
#undef NAME
#undef EXP
#undef TANH
#undef SIGMOID
#undef LOG1P
#undef ABS
#define T double
#define NAME(x) f64_##x
#define EXP exp
#define TANH tanh
#define SIGMOID(x) (1 / (1 + exp(-(x))))
#define LOG1P log1p
#define ABS fabs
#include "recurrent.inc"

static void pack_recurrent(recurrent_call *r, int64_t d)
{
    const recurrent_state *s = r->s;
    const recurrent_plan *p = r->p;
    size_t width = inlay_dtype_bits(r->call->in[2].dtype) / 8;
    char *room = r->direction_room + d * (int64_t)p->direction_bytes;
    const char *data = r->call->in[2].data;
    gemm_operand operand = { .pack = s->pack, .line_stride = p->hidden, .k_stride = 1 };

    r->recurrent[d] = s->r[d].packed;
    r->candidate[d] = s->candidate[d].packed;
    if (s->r[d].packed != NULL)
        return;
    operand.data = data + (size_t)(d * s->gates * p->hidden * p->hidden) * width;
    if (!packs_r(s)) {
        r->recurrent[d] = operand.data;
        r->candidate[d] = (const char *)operand.data + (size_t)(2 * p->hidden * p->hidden) * width;
        return;
    }
    gemm_pack_all(s->kernel, s->kernel->nr, &operand, 0, p->recurrent.n, p->hidden, room + p->packed_at);
    r->recurrent[d] = room + p->packed_at;
    if (s->cell != CELL_GRU)
        return;
    operand.data = (const char *)operand.data + (size_t)(2 * p->hidden * p->hidden) * width;
    gemm_pack_all(s->kernel, s->kernel->nr, &operand, 0, p->hidden, p->hidden, room + p->candidate_at);
    r->candidate[d] = room + p->candidate_at;
}

static inlay_status run_directions(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const recurrent_call *r = user;

    (void)worker;
    for (int64_t d = begin; d < end; d++) {
        if (r->s->kernel->acc_bytes == 8)
            f64_run_direction(r, d);
        else
            f32_run_direction(r, d);
    }
    return INLAY_OK;
}

inlay_status product_recurrent_run(const kit_call *call)
{
    const recurrent_state *s = call->state;
    const recurrent_plan *p = call->plan;
    recurrent_call r = { .call = call, .s = s, .p = p, .lengths = length_of,
                         .direction_room = (char *)call->workspace + p->projection_bytes };
    inlay_status status = INLAY_OK;

    for (int64_t d = 0; d < p->directions; d++) {
        gemm_job job = p->projection;
        char *room = r.direction_room + d * (int64_t)p->direction_bytes;
        bool wide = s->kernel->acc_bytes == 8;
        job.a.data = call->in[0].data;
        job.b.packed = s->w[d].packed;
        if (call->in[1].data != NULL)
            job.b.data = (const char *)call->in[1].data +
                         (size_t)kit_bytes(call->in[1].dtype, d * s->gates * p->hidden * p->inputs);
        job.c = room + p->projected_at;
        job.init = wide ? f64_fill_bias : f32_fill_bias;
        job.init_user = room + p->input_bias_at;
        if (wide)
            f64_load_bias(&r, d, (void *)(room + p->input_bias_at), (void *)(room + p->bias_at));
        else
            f32_load_bias(&r, d, (void *)(room + p->input_bias_at), (void *)(room + p->bias_at));
        INLAY_TRY(gemm_run(call, &job, call->workspace));
        pack_recurrent(&r, d);
    }
    status = kit_parallel(call, p->directions, 1, run_directions, &r);
done:
    return status;
}

void product_recurrent_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    const kit_tensor *x = &shapes->in[0], *w = &shapes->in[1], *r = &shapes->in[2];
    bool batch_first = kit_attr_int(node->info, "layout", 0) != 0;
    double steps, batch, directions, gates;
    product_size sizes[2] = { { .b_constant = kit_is_constant(node, 1), .b_along = true },
                              { .b_constant = kit_is_constant(node, 2), .b_along = true } };

    if (x->rank != 3 || w->rank != 3 || r->rank != 3 || x->count < 0 || w->count < 0 || r->count < 0)
        return;
    steps = (double)x->dims[batch_first ? 1 : 0];
    batch = (double)x->dims[batch_first ? 0 : 1];
    directions = (double)w->dims[0];
    gates = (double)w->dims[1];
    sizes[0].batch = directions;
    sizes[0].m = steps * batch;
    sizes[1].batch = directions * steps;
    sizes[1].m = batch;
    sizes[0].n = sizes[1].n = gates;
    sizes[0].k = (double)w->dims[2];
    sizes[1].k = (double)r->dims[2];
    out->bytes_read = kit_bytes(x->dtype, x->count + w->count) + kit_bytes(r->dtype, r->count) * (uint64_t)steps;
    for (uint32_t i = 0; i < shapes->out_count; i++)
        if (shapes->out[i].count > 0 && shapes->out[i].dtype != INLAY_UNDEFINED)
            out->bytes_written += kit_bytes(shapes->out[i].dtype, shapes->out[i].count);
    /* Gates cost about a nanosecond each; a step a little more. */
    product_cost_set(node, shapes, gemm_type_of(x->dtype), sizes, 2, directions * steps * (batch * gates + 25),
                     out);
}
