/* BeamSearch, WhisperBeamSearch, GreedySearch and Sampling of com.microsoft become a Loop around their decoder, whose
 * body takes in a step of the search:
 *
 *     ids, state = SearchStart(prompt, settings)
 *     Loop: logits, presents = decoder(ids, pasts);  go, state, ids, rows = SearchStep(logits, state)
 *           pasts = Gather(presents, rows)
 *     sequences = SearchEnd(state)
 *
 * A decoder that reads what an encoder found (T5, Whisper) gets that for each row; a first run that has a body of its
 * own
 * (`init_decoder`, or the encoder's) is put in front of the Loop. Level 0: no provider runs nodes with such bodies, so
 * other ones (those with buffers that past and present share) are an error. */
#include "base/among.h"
#include "passes/body_nodes.h"
#include "passes/type_guard.h"
#include <string.h>

static const char ours[] = "ai.inlay";
enum { MAX_PASTS = 1024 };

struct searches {
    node_maker m;
    struct graph *g;
    graph_node *n;
    const graph_body *decoder, *encoder, *first;
    bool sampling, beams, scored;
    bool heard;     /* Whisper: the encoder reads sound, the prompt is what the decoder begins with */
    uint32_t fixed; /* inputs of the decoder in front of the pasts */
    uint32_t pasts; /* that the decoder makes anew; behind them others may stay as they are */
    uint32_t feeds; /* all inputs of the decoder */
    uint32_t start[6], step[7];
};

static uint32_t gather(struct searches *s, struct graph *g, uint32_t from, uint32_t rows, int64_t axis)
{
    return make_value(&s->m, g, "Gather", 13, (const uint32_t[]){ from, rows }, 2, "axis", axis);
}

static uint32_t integers(struct searches *s, const int64_t *values, int64_t count)
{
    return make_constant(&s->m, s->g, INLAY_INT64, 1, count, values, (size_t)count * sizeof *values);
}

/* ------------------------------------------------------------------ is it one that is understood? */

static int64_t declared(const struct graph *g, uint32_t input, uint32_t d)
{
    const graph_value *v = &g->values[g->inputs[input]];

    return v->declared && v->declared_rank > d && v->declared_rank != INLAY_RANK_UNKNOWN &&
                   v->declared_dims[d].kind == INLAY_DIM_FIXED
               ? v->declared_dims[d].value
               : -1;
}

/* Sizes of the heads of the pasts: [2, rows, heads, length, size], or [rows, heads, length, size] behind an encoder. */
static bool has_past_sizes(const struct searches *s)
{
    const uint32_t heads = s->encoder != NULL ? 1 : 2;

    return declared(s->decoder->graph, s->fixed, heads) > 0 && declared(s->decoder->graph, s->fixed, heads + 2) > 0;
}

/* A decoder alone: input_ids, position_ids, attention_mask, pasts -> logits, presents. */
static bool fits_decoder(struct searches *s)
{
    const struct graph *d = s->decoder->graph;

    s->fixed = 3;
    s->feeds = d->input_count;
    s->pasts = d->output_count - 1;
    return d->input_count == 3 + s->pasts && has_past_sizes(s) &&
           (s->first == NULL ||
            (s->first->graph->input_count == s->feeds && s->first->graph->output_count == d->output_count));
}

/* Behind an encoder: input_ids, encoder_attention_mask, encoder_hidden_states?, pasts of its own, what it reads of the
 * encoder -> logits, presents of its own. The encoder ran the decoder for the first word, or did not. */
static bool fits_encoder(struct searches *s)
{
    const struct graph *d = s->decoder->graph, *e = s->encoder->graph;
    const bool runs = e->input_count == 3;

    if (d->input_count < 3 || s->first != NULL || (e->input_count != 2 && !runs))
        return false;
    s->fixed = strcmp(d->values[d->inputs[2]].info.name.data, "encoder_hidden_states") == 0 ? 3 : 2;
    s->feeds = d->input_count;
    s->pasts = d->output_count - 1;
    if (s->feeds < s->fixed + s->pasts)
        return false;
    return runs ? e->output_count == s->feeds - s->fixed + 2
                : s->fixed == 2 && e->output_count == s->feeds - s->fixed - s->pasts && has_past_sizes(s);
}

/* Whisper: input_ids, encoder_hidden_states?, pasts of its own, what it reads of the encoder. The encoder runs the
 * decoder for the words of decoder_input_ids. */
static bool fits_heard(struct searches *s)
{
    const struct graph *d = s->decoder->graph, *e = s->encoder->graph;
    const uint32_t processor = s->n->info.input_count > 11 ? s->n->info.inputs[11] : INLAY_NONE;
    const void *rules = processor != INLAY_NONE ? s->g->values[processor].info.data : NULL;

    if (d->input_count < 2 || s->first != NULL || e->input_count != 2 || s->n->info.input_count < 11 ||
        s->n->info.inputs[10] == INLAY_NONE || s->n->info.output_count > 3 ||
        (processor != INLAY_NONE && (rules == NULL || *(const int32_t *)rules != 0)))
        return false;
    s->heard = true;
    s->fixed = strcmp(d->values[d->inputs[1]].info.name.data, "encoder_hidden_states") == 0 ? 2 : 1;
    s->feeds = d->input_count;
    s->pasts = d->output_count - 1;
    return s->feeds >= s->fixed + s->pasts && e->output_count == s->feeds - s->fixed + 2;
}

static bool is_search(struct searches *s)
{
    const inlay_node_info *n = &s->n->info;

    if (s->n->schema == NULL || strcmp(n->domain.data, "com.microsoft") != 0)
        return false;
    s->beams = strcmp(n->op_type.data, "BeamSearch") == 0 || strcmp(n->op_type.data, "WhisperBeamSearch") == 0;
    s->sampling = strcmp(n->op_type.data, "Sampling") == 0;
    return s->beams || s->sampling || strcmp(n->op_type.data, "GreedySearch") == 0;
}

static bool fits(struct searches *s)
{
    const graph_node *n = s->n;
    const inlay_attr_info *type = graph_attr(n, "model_type");
    const int64_t kind = type != NULL ? type->i : n->info.op_type.data[0] == 'W' ? 2 : 0;

    s->decoder = graph_body_named(n, "decoder");
    s->encoder = graph_body_named(n, "encoder");
    s->first = graph_body_named(n, "init_decoder");
    if (s->decoder == NULL || s->decoder->graph->output_count < 2 || s->decoder->graph->output_count > MAX_PASTS ||
        s->decoder->graph->input_count > MAX_PASTS)
        return false;
    s->scored = n->info.output_count > (s->beams ? 2 : 1) && n->info.outputs[s->beams ? 2 : 1] != INLAY_NONE;
    if (kind == 0)
        return s->encoder == NULL && fits_decoder(s);
    return s->beams && s->encoder != NULL && (kind == 1 ? fits_encoder(s) : kind == 2 && fits_heard(s));
}

/* ------------------------------------------------------------------ in front of the Loop */

static uint32_t input(const graph_node *n, uint32_t i)
{
    return i < n->info.input_count ? n->info.inputs[i] : INLAY_NONE;
}

/* Those of a search, of the attributes that WhisperBeamSearch has. */
static bool is_setting(const char *name)
{
    return is_among(name, "early_stopping eos_token_id no_repeat_ngram_size pad_token_id vocab_size");
}

/* The settings in the order in which SearchStart reads them. */
static bool put_start(struct searches *s)
{
    static const uint32_t of_beams[12] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, INLAY_NONE, INLAY_NONE };
    static const uint32_t of_words[12] = { 0, 1, 2, INLAY_NONE, INLAY_NONE, INLAY_NONE, 3, 4, 5, 6, 7, 8 };
    const struct graph *d = s->decoder->graph;
    uint32_t inputs[12];
    graph_node *start;

    for (uint32_t i = 0; i < 12; i++) {
        const uint32_t from = s->beams ? of_beams[i] : of_words[i];

        inputs[i] = from == INLAY_NONE || (from == 8 && !s->beams && !s->sampling) ? INLAY_NONE : input(s->n, from);
    }
    if (s->heard) {
        inputs[0] = input(s->n, 10);
        inputs[9] = INLAY_NONE;
    }
    start = make_node(&s->m, s->g, ours, "SearchStart", 1, inputs, 12, 6);
    if (start == NULL ||
        graph_set_attr_string(s->g, start, "search",
                              s->beams      ? "beam"
                              : s->sampling ? "sample"
                                            : "greedy") != INLAY_OK ||
        graph_set_attr_int(s->g, start, "encoder", s->encoder != NULL && !s->heard) != INLAY_OK ||
        graph_set_attr_int(s->g, start, "whole", s->encoder != NULL && declared(d, 0, 1) != 1) != INLAY_OK)
        return false;
    for (uint32_t i = 0; i < s->n->info.attr_count; i++) {
        const inlay_attr_info *a = INLAY_AT(inlay_attr_info, s->n->info.attrs, s->n->info.attr_stride, i);

        if ((a->kind == INLAY_ATTR_INT || a->kind == INLAY_ATTR_FLOAT) && strcmp(a->name.data, "model_type") != 0 &&
            (!s->heard || is_setting(a->name.data)) && graph_set_attr(s->g, start, a) != INLAY_OK)
            return false;
    }
    memcpy(s->start, start->info.outputs, sizeof s->start);
    return true;
}

/* Nothing that came before: of length 0. */
static uint32_t put_no_past(struct searches *s)
{
    const struct graph *d = s->decoder->graph;
    const uint32_t heads = s->encoder != NULL ? 1 : 2;
    const inlay_dtype dtype = d->values[d->inputs[s->fixed]].declared_dtype;
    const int64_t two = 2, sizes[] = { declared(d, s->fixed, heads), 0, declared(d, s->fixed, heads + 2) };
    const uint32_t parts[] = { integers(s, &two, 1), s->start[4], integers(s, sizes, 3) };
    const uint32_t skip = s->encoder != NULL;
    const uint32_t shape = make_value(&s->m, s->g, "Concat", 13, parts + skip, 3 - skip, "axis", 0);
    const uint32_t past = make_value(&s->m, s->g, "ConstantOfShape", 9, &shape, 1, NULL, 0);

    return dtype == INLAY_FLOAT || dtype == INLAY_UNDEFINED
               ? past
               : make_value(&s->m, s->g, "Cast", 13, &past, 1, "to", dtype);
}

static bool put_step(struct searches *s, struct graph *g, uint32_t logits, uint32_t state)
{
    graph_node *step =
        make_node(&s->m, g, ours, "SearchStep", 1, (const uint32_t[]){ logits, state }, 2, s->scored ? 7 : 6);

    if (step == NULL)
        return false;
    memcpy(s->step, step->info.outputs, step->info.output_count * sizeof *s->step);
    if (s->encoder != NULL)
        ((uint32_t *)(uintptr_t)step->info.outputs)[4] = ((uint32_t *)(uintptr_t)step->info.outputs)[5] = INLAY_NONE;
    return true;
}

/* What the Loop starts with: whether to, what the decoder reads, the state. */
static bool put_front(struct searches *s, uint32_t *go, uint32_t *feeds, uint32_t *state, uint32_t *scores)
{
    const uint8_t yes = 1;
    uint32_t *made = arena_array(&s->m.ctx->model->arena, 2 * MAX_PASTS + 2, sizeof *made), past;
    const bool runs = s->encoder != NULL && (s->heard || s->encoder->graph->input_count == 3);

    if (made == NULL || !put_start(s))
        return false;
    *go = make_constant(&s->m, s->g, INLAY_BOOL, 0, 0, &yes, sizeof yes);
    *state = s->start[3];
    memcpy(feeds, s->start, s->fixed * sizeof *feeds);
    past = runs ? INLAY_NONE : put_no_past(s);
    for (uint32_t i = 0; i < s->pasts; i++)
        feeds[s->fixed + i] = past;
    if (s->encoder != NULL) {
        const uint32_t inputs[] = { s->n->info.inputs[0], s->heard ? s->n->info.inputs[10] : s->start[2], s->start[0] };
        const uint32_t words = s->heard ? 1 : 2;
        const uint32_t kept = runs ? words : s->fixed + s->pasts; /* of the feeds, the first that the encoder gives */
        const uint32_t skip = runs ? 2 + words - s->fixed : 0;    /* of its results, those that are no feed */

        make_body(&s->m, s->g, s->encoder, inputs, made);
        if (!s->heard) {
            feeds[0] = gather(s, s->g, s->start[0], s->start[5], 0);
            feeds[1] = gather(s, s->g, s->start[2], s->start[5], 0);
        }
        for (uint32_t i = kept; i < s->feeds; i++)
            feeds[i] = gather(s, s->g, made[i - kept + skip], s->start[5], 0);
    } else if (s->first != NULL) {
        make_body(&s->m, s->g, s->first, feeds, made);
    }
    if (!runs && s->first == NULL)
        return !s->m.failed;
    if (!put_step(s, s->g, made[0], *state))
        return false;
    *go = s->step[0];
    *state = s->step[1];
    *scores = s->scored ? s->step[6] : INLAY_NONE;
    feeds[0] = s->step[2];
    if (s->first != NULL) {
        feeds[1] = s->step[4];
        feeds[2] = s->step[5];
        for (uint32_t i = 0; i < s->pasts; i++)
            feeds[3 + i] = gather(s, s->g, made[1 + i], s->step[3], 1);
    }
    return !s->m.failed;
}

/* ------------------------------------------------------------------ the Loop */

/* The decoder becomes the body: behind iteration and condition come its inputs, then the state. */
static bool turn_decoder(struct searches *s)
{
    struct graph *d = s->decoder->graph;
    struct arena *a = &s->m.ctx->model->arena;
    uint32_t *in = arena_array(a, s->feeds + 3, sizeof *in), *out = arena_array(a, s->feeds + 3, sizeof *out);
    const uint32_t iteration = graph_add_value(d, NULL, 0), condition = graph_add_value(d, NULL, 0);
    const uint32_t state = graph_add_value(d, NULL, 0);

    if (in == NULL || out == NULL || iteration == INLAY_NONE || condition == INLAY_NONE || state == INLAY_NONE ||
        !put_step(s, d, d->outputs[0], state))
        return false;
    in[0] = iteration;
    in[1] = condition;
    memcpy(in + 2, d->inputs, s->feeds * sizeof *in);
    in[2 + s->feeds] = state;
    out[0] = s->step[0];
    memcpy(out + 1, d->inputs, s->feeds * sizeof *out); /* what is not made anew stays */
    out[1] = s->step[2];
    if (s->encoder == NULL) {
        out[2] = s->step[4];
        out[3] = s->step[5];
    }
    for (uint32_t i = 0; i < s->pasts; i++)
        out[1 + s->fixed + i] =
            s->beams ? gather(s, d, d->outputs[1 + i], s->step[3], s->encoder == NULL) : d->outputs[1 + i];
    out[1 + s->feeds] = s->step[1];
    if (s->scored)
        out[2 + s->feeds] = s->step[6];
    d->inputs = in;
    d->input_count = s->feeds + 3;
    d->outputs = out;
    d->output_count = s->feeds + 2 + s->scored;
    return !s->m.failed;
}

/* What the decoder alone captures. */
static bool take_body(struct searches *s, graph_node *loop)
{
    struct arena *a = &s->m.ctx->model->arena;
    graph_body *body = arena_alloc(a, sizeof *body);
    uint32_t *captures = arena_array(a, s->decoder->capture_count + 1, sizeof *captures);

    if (body == NULL || captures == NULL)
        return false;
    *body = *s->decoder;
    body->attr = "body";
    loop->bodies = body;
    loop->body_count = 1;
    loop->captures = captures;
    for (uint32_t i = 0; i < body->capture_count; i++) {
        bool seen = false;

        for (uint32_t k = 0; k < loop->capture_count && !seen; k++)
            seen = captures[k] == body->capture_outer[i];
        if (!seen)
            captures[loop->capture_count++] = body->capture_outer[i];
    }
    return true;
}

static graph_node *put_loop(struct searches *s, uint32_t go, const uint32_t *feeds, uint32_t state)
{
    const uint32_t ins = s->feeds + 3, outs = s->feeds + 1 + s->scored;
    uint32_t *inputs = arena_array(&s->m.ctx->model->arena, ins, sizeof *inputs);
    graph_node *loop;

    if (inputs == NULL || !turn_decoder(s))
        return NULL;
    inputs[0] = INLAY_NONE;
    inputs[1] = go;
    memcpy(inputs + 2, feeds, s->feeds * sizeof *feeds);
    inputs[2 + s->feeds] = state;
    loop = make_node(&s->m, s->g, NULL, "Loop", 16, inputs, ins, outs);
    if (loop == NULL || !take_body(s, loop))
        return NULL;
    for (uint32_t o = 0; o < s->feeds; o++) /* only the state is read */
        ((uint32_t *)(uintptr_t)loop->info.outputs)[o] = INLAY_NONE;
    return loop;
}

/* ------------------------------------------------------------------ behind the Loop */

static bool put_end(struct searches *s, const graph_node *loop, uint32_t first_scores)
{
    const inlay_node_info *n = &s->n->info;
    uint32_t scores = s->scored ? loop->info.outputs[s->feeds + 1] : INLAY_NONE, *made;
    graph_node *end;

    if (first_scores != INLAY_NONE) {
        const int64_t zero = 0;
        const uint32_t row[] = { first_scores, integers(s, &zero, 1) };
        const uint32_t both[] = { make_value(&s->m, s->g, "Unsqueeze", 13, row, 2, NULL, 0), scores };

        scores = make_value(&s->m, s->g, "Concat", 13, both, 2, "axis", 0);
    }
    end = make_node(&s->m, s->g, ours, "SearchEnd", 1, (const uint32_t[]){ loop->info.outputs[s->feeds], scores }, 2,
                    n->output_count);
    if (end == NULL)
        return false;
    made = (uint32_t *)(uintptr_t)end->info.outputs;
    for (uint32_t o = 0; o < n->output_count; o++) {
        graph_node *cast;

        if (o == 0 || n->outputs[o] == INLAY_NONE || s->g->values[n->outputs[o]].info.dtype != INLAY_FLOAT16) {
            made[o] = n->outputs[o];
            continue;
        }
        cast = make_node(&s->m, s->g, NULL, "Cast", 13, &made[o], 1, 1);
        if (cast == NULL || graph_set_attr_int(s->g, cast, "to", INLAY_FLOAT16) != INLAY_OK)
            return false;
        ((uint32_t *)(uintptr_t)cast->info.outputs)[0] = n->outputs[o];
    }
    return !s->m.failed;
}

static bool spell(struct searches *s)
{
    uint32_t *feeds = arena_array(&s->m.ctx->model->arena, s->feeds + 1, sizeof *feeds), go, state, scores = INLAY_NONE;
    const graph_node *loop;

    if (feeds == NULL || !graph_model_import(s->m.ctx->model, ours, 1) || !put_front(s, &go, feeds, &state, &scores))
        return false;
    loop = put_loop(s, go, feeds, state);
    return loop != NULL && put_end(s, loop, scores);
}

static inlay_status visit(pass_ctx *ctx, struct graph *g, bool *changed)
{
    const uint32_t nodes = g->node_count;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < nodes; i++) {
        struct searches s = { .m = { .ctx = ctx, .like = g->nodes[i] }, .g = g, .n = g->nodes[i] };
        inlay_status status;

        if (!is_search(&s)) {
            g->nodes[kept++] = g->nodes[i];
            continue;
        }
        if (!fits(&s))
            return graph_fail(
                g, s.n, NULL, INLAY_UNSUPPORTED, ctx->diag,
                "its bodies are neither a decoder alone nor the encoder and decoder of T5 or of Whisper with "
                "decoder_input_ids (model_type 0, 1 and 2, past and present in buffers of their own, no "
                "logits_processor)");
        status = type_guard_expect(ctx, g, s.n);
        if (status != INLAY_OK)
            return status;
        if (!spell(&s))
            return no_memory(ctx->diag, "to make a Loop of node '%s'", s.n->info.name.data);
        pass_count(ctx, g, s.n, "Loop");
        *changed = true;
    }
    for (uint32_t i = nodes; i < g->node_count; i++)
        g->nodes[kept++] = g->nodes[i];
    g->node_count = kept;
    return INLAY_OK;
}

inlay_status pass_searches(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
