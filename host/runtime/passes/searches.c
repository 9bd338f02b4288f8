/* BeamSearch, WhisperBeamSearch, GreedySearch and Sampling of com.microsoft become a Loop around their decoder, whose
 * body takes in a step of the search:
 *
 *     ids, state = SearchStart(prompt, settings)
 *     Loop: logits, presents = decoder(ids, pasts);  go, state, ids, rows = SearchStep(logits, state)
 *           pasts = Gather(presents, rows)
 *     sequences = SearchEnd(state)
 *
 * A decoder that reads what an encoder found (T5, Whisper) gets that for each row; a first run that has a body of its
 * own (`init_decoder`, or the encoder's) is put in front of the Loop. Level 0: no provider runs nodes with such bodies,
 * so other ones (those with buffers that past and present share) are an error. */
#include "base/among.h"
#include "passes/body_nodes.h"
#include "passes/type_guard.h"
#include <string.h>

static const char ours[] = "ai.inlay";
enum { MAX_PASTS = 1024 };

struct searches {
    node_maker maker;
    struct graph *graph;
    graph_node *node;
    const graph_body *decoder, *encoder, *first;
    bool sampling, beams, scored;
    bool heard;     /* Whisper: the encoder reads sound, the prompt is what the decoder begins with */
    uint32_t fixed; /* inputs of the decoder in front of the pasts */
    uint32_t pasts; /* that the decoder makes anew; behind them others may stay as they are */
    uint32_t feeds; /* all inputs of the decoder */
    uint32_t start[6], step[7];
};

static uint32_t gather(struct searches *searches, struct graph *graph, uint32_t from, uint32_t rows, int64_t axis)
{
    return make_value(&searches->maker, graph, "Gather", 13, (const uint32_t[]){ from, rows }, 2, "axis", axis);
}

static uint32_t integers(struct searches *searches, const int64_t *values, int64_t count)
{
    return make_constant(&searches->maker, searches->graph, INLAY_INT64, 1, count, values,
                         (size_t)count * sizeof *values);
}

/* ------------------------------------------------------------------ is it one that is understood? */

static int64_t declared(const struct graph *graph, uint32_t input, uint32_t d)
{
    const graph_value *value = &graph->values[graph->inputs[input]];

    return value->declared && value->declared_rank > d && value->declared_rank != INLAY_RANK_UNKNOWN &&
                   value->declared_dims[d].kind == INLAY_DIM_FIXED
               ? value->declared_dims[d].value
               : -1;
}

/* Sizes of the heads of the pasts: [2, rows, heads, length, size], or [rows, heads, length, size] behind an encoder. */
static bool has_past_sizes(const struct searches *searches)
{
    const uint32_t heads = searches->encoder != NULL ? 1 : 2;

    return declared(searches->decoder->graph, searches->fixed, heads) > 0 &&
           declared(searches->decoder->graph, searches->fixed, heads + 2) > 0;
}

/* A decoder alone: input_ids, position_ids, attention_mask, pasts -> logits, presents. */
static bool fits_decoder(struct searches *searches)
{
    const struct graph *graph = searches->decoder->graph;

    searches->fixed = 3;
    searches->feeds = graph->input_count;
    searches->pasts = graph->output_count - 1;
    return graph->input_count == 3 + searches->pasts && has_past_sizes(searches) &&
           (searches->first == NULL || (searches->first->graph->input_count == searches->feeds &&
                                        searches->first->graph->output_count == graph->output_count));
}

/* Behind an encoder: input_ids, encoder_attention_mask, encoder_hidden_states?, pasts of its own, what it reads of the
 * encoder -> logits, presents of its own. The encoder ran the decoder for the first word, or did not. */
static bool fits_encoder(struct searches *searches)
{
    const struct graph *graph = searches->decoder->graph, *e = searches->encoder->graph;
    const bool runs = e->input_count == 3;

    if (graph->input_count < 3 || searches->first != NULL || (e->input_count != 2 && !runs))
        return false;
    searches->fixed = strcmp(graph->values[graph->inputs[2]].info.name.data, "encoder_hidden_states") == 0 ? 3 : 2;
    searches->feeds = graph->input_count;
    searches->pasts = graph->output_count - 1;
    if (searches->feeds < searches->fixed + searches->pasts)
        return false;
    return runs ? e->output_count == searches->feeds - searches->fixed + 2
                : searches->fixed == 2 && e->output_count == searches->feeds - searches->fixed - searches->pasts &&
                      has_past_sizes(searches);
}

/* Whisper: input_ids, encoder_hidden_states?, pasts of its own, what it reads of the encoder. The encoder runs the
 * decoder for the words of decoder_input_ids. */
static bool fits_heard(struct searches *searches)
{
    const struct graph *graph = searches->decoder->graph, *e = searches->encoder->graph;
    const uint32_t processor = searches->node->info.input_count > 11 ? searches->node->info.inputs[11] : INLAY_NONE;
    const void *rules = processor != INLAY_NONE ? searches->graph->values[processor].info.data : NULL;

    if (graph->input_count < 2 || searches->first != NULL || e->input_count != 2 ||
        searches->node->info.input_count < 11 || searches->node->info.inputs[10] == INLAY_NONE ||
        searches->node->info.output_count > 3 ||
        (processor != INLAY_NONE && (rules == NULL || *(const int32_t *)rules != 0)))
        return false;
    searches->heard = true;
    searches->fixed = strcmp(graph->values[graph->inputs[1]].info.name.data, "encoder_hidden_states") == 0 ? 2 : 1;
    searches->feeds = graph->input_count;
    searches->pasts = graph->output_count - 1;
    return searches->feeds >= searches->fixed + searches->pasts &&
           e->output_count == searches->feeds - searches->fixed + 2;
}

static bool is_search(struct searches *searches)
{
    const inlay_node_info *node = &searches->node->info;

    if (searches->node->schema == NULL || strcmp(node->domain.data, "com.microsoft") != 0)
        return false;
    searches->beams =
        strcmp(node->op_type.data, "BeamSearch") == 0 || strcmp(node->op_type.data, "WhisperBeamSearch") == 0;
    searches->sampling = strcmp(node->op_type.data, "Sampling") == 0;
    return searches->beams || searches->sampling || strcmp(node->op_type.data, "GreedySearch") == 0;
}

static bool fits(struct searches *searches)
{
    const graph_node *node = searches->node;
    const inlay_attr_info *type = graph_attr(node, "model_type");
    const int64_t kind = type != NULL ? type->i : node->info.op_type.data[0] == 'W' ? 2 : 0;

    searches->decoder = graph_body_named(node, "decoder");
    searches->encoder = graph_body_named(node, "encoder");
    searches->first = graph_body_named(node, "init_decoder");
    if (searches->decoder == NULL || searches->decoder->graph->output_count < 2 ||
        searches->decoder->graph->output_count > MAX_PASTS || searches->decoder->graph->input_count > MAX_PASTS)
        return false;
    searches->scored = node->info.output_count > (searches->beams ? 2 : 1) &&
                       node->info.outputs[searches->beams ? 2 : 1] != INLAY_NONE;
    if (kind == 0)
        return searches->encoder == NULL && fits_decoder(searches);
    return searches->beams && searches->encoder != NULL &&
           (kind == 1 ? fits_encoder(searches) : kind == 2 && fits_heard(searches));
}

/* ------------------------------------------------------------------ in front of the Loop */

static uint32_t input(const graph_node *node, uint32_t i)
{
    return i < node->info.input_count ? node->info.inputs[i] : INLAY_NONE;
}

/* Those of a search, of the attributes that WhisperBeamSearch has. */
static bool is_setting(const char *name)
{
    return is_among(name, "early_stopping eos_token_id no_repeat_ngram_size pad_token_id vocab_size");
}

/* The settings in the order in which SearchStart reads them. */
static bool put_start(struct searches *searches)
{
    static const uint32_t of_beams[12] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, INLAY_NONE, INLAY_NONE };
    static const uint32_t of_words[12] = { 0, 1, 2, INLAY_NONE, INLAY_NONE, INLAY_NONE, 3, 4, 5, 6, 7, 8 };
    const struct graph *graph = searches->decoder->graph;
    uint32_t inputs[12];
    graph_node *start;

    for (uint32_t i = 0; i < 12; i++) {
        const uint32_t from = searches->beams ? of_beams[i] : of_words[i];

        inputs[i] = from == INLAY_NONE || (from == 8 && !searches->beams && !searches->sampling)
                        ? INLAY_NONE
                        : input(searches->node, from);
    }
    if (searches->heard) {
        inputs[0] = input(searches->node, 10);
        inputs[9] = INLAY_NONE;
    }
    start = make_node(&searches->maker, searches->graph, ours, "SearchStart", 1, inputs, 12, 6);
    if (start == NULL ||
        graph_set_attr_string(searches->graph, start, "search",
                              searches->beams      ? "beam"
                              : searches->sampling ? "sample"
                                                   : "greedy") != INLAY_OK ||
        graph_set_attr_int(searches->graph, start, "encoder", searches->encoder != NULL && !searches->heard) !=
            INLAY_OK ||
        graph_set_attr_int(searches->graph, start, "whole", searches->encoder != NULL && declared(graph, 0, 1) != 1) !=
            INLAY_OK)
        return false;
    for (uint32_t i = 0; i < searches->node->info.attr_count; i++) {
        const inlay_attr_info *attribute =
            INLAY_AT(inlay_attr_info, searches->node->info.attrs, searches->node->info.attr_stride, i);

        if ((attribute->kind == INLAY_ATTR_INT || attribute->kind == INLAY_ATTR_FLOAT) &&
            strcmp(attribute->name.data, "model_type") != 0 && (!searches->heard || is_setting(attribute->name.data)) &&
            graph_set_attr(searches->graph, start, attribute) != INLAY_OK)
            return false;
    }
    memcpy(searches->start, start->info.outputs, sizeof searches->start);
    return true;
}

/* Nothing that came before: of length 0. */
static uint32_t put_no_past(struct searches *searches)
{
    const struct graph *graph = searches->decoder->graph;
    const uint32_t heads = searches->encoder != NULL ? 1 : 2;
    const inlay_dtype dtype = graph->values[graph->inputs[searches->fixed]].declared_dtype;
    const int64_t two = 2,
                  sizes[] = { declared(graph, searches->fixed, heads), 0, declared(graph, searches->fixed, heads + 2) };
    const uint32_t parts[] = { integers(searches, &two, 1), searches->start[4], integers(searches, sizes, 3) };
    const uint32_t skip = searches->encoder != NULL;
    const uint32_t shape =
        make_value(&searches->maker, searches->graph, "Concat", 13, parts + skip, 3 - skip, "axis", 0);
    const uint32_t past = make_value(&searches->maker, searches->graph, "ConstantOfShape", 9, &shape, 1, NULL, 0);

    return dtype == INLAY_FLOAT || dtype == INLAY_UNDEFINED
               ? past
               : make_value(&searches->maker, searches->graph, "Cast", 13, &past, 1, "to", dtype);
}

static bool put_step(struct searches *searches, struct graph *graph, uint32_t logits, uint32_t state)
{
    graph_node *step = make_node(&searches->maker, graph, ours, "SearchStep", 1, (const uint32_t[]){ logits, state }, 2,
                                 searches->scored ? 7 : 6);

    if (step == NULL)
        return false;
    memcpy(searches->step, step->info.outputs, step->info.output_count * sizeof *searches->step);
    if (searches->encoder != NULL)
        ((uint32_t *)(uintptr_t)step->info.outputs)[4] = ((uint32_t *)(uintptr_t)step->info.outputs)[5] = INLAY_NONE;
    return true;
}

/* What the Loop starts with: whether to, what the decoder reads, the state. */
static bool put_front(struct searches *searches, uint32_t *go, uint32_t *feeds, uint32_t *state, uint32_t *scores)
{
    const uint8_t yes = 1;
    uint32_t *made = arena_array(&searches->maker.ctx->model->arena, 2 * MAX_PASTS + 2, sizeof *made), past;
    const bool runs = searches->encoder != NULL && (searches->heard || searches->encoder->graph->input_count == 3);

    if (made == NULL || !put_start(searches))
        return false;
    *go = make_constant(&searches->maker, searches->graph, INLAY_BOOL, 0, 0, &yes, sizeof yes);
    *state = searches->start[3];
    memcpy(feeds, searches->start, searches->fixed * sizeof *feeds);
    past = runs ? INLAY_NONE : put_no_past(searches);
    for (uint32_t i = 0; i < searches->pasts; i++)
        feeds[searches->fixed + i] = past;
    if (searches->encoder != NULL) {
        const uint32_t inputs[] = { searches->node->info.inputs[0],
                                    searches->heard ? searches->node->info.inputs[10] : searches->start[2],
                                    searches->start[0] };
        const uint32_t words = searches->heard ? 1 : 2;
        const uint32_t kept =
            runs ? words : searches->fixed + searches->pasts; /* of the feeds, the first that the encoder gives */
        const uint32_t skip = runs ? 2 + words - searches->fixed : 0; /* of its results, those that are no feed */

        make_body(&searches->maker, searches->graph, searches->encoder, inputs, made);
        if (!searches->heard) {
            feeds[0] = gather(searches, searches->graph, searches->start[0], searches->start[5], 0);
            feeds[1] = gather(searches, searches->graph, searches->start[2], searches->start[5], 0);
        }
        for (uint32_t i = kept; i < searches->feeds; i++)
            feeds[i] = gather(searches, searches->graph, made[i - kept + skip], searches->start[5], 0);
    } else if (searches->first != NULL) {
        make_body(&searches->maker, searches->graph, searches->first, feeds, made);
    }
    if (!runs && searches->first == NULL)
        return !searches->maker.failed;
    if (!put_step(searches, searches->graph, made[0], *state))
        return false;
    *go = searches->step[0];
    *state = searches->step[1];
    *scores = searches->scored ? searches->step[6] : INLAY_NONE;
    feeds[0] = searches->step[2];
    if (searches->first != NULL) {
        feeds[1] = searches->step[4];
        feeds[2] = searches->step[5];
        for (uint32_t i = 0; i < searches->pasts; i++)
            feeds[3 + i] = gather(searches, searches->graph, made[1 + i], searches->step[3], 1);
    }
    return !searches->maker.failed;
}

/* ------------------------------------------------------------------ the Loop */

/* The decoder becomes the body: behind iteration and condition come its inputs, then the state. */
static bool turn_decoder(struct searches *searches)
{
    struct graph *graph = searches->decoder->graph;
    struct arena *arena = &searches->maker.ctx->model->arena;
    uint32_t *in = arena_array(arena, searches->feeds + 3, sizeof *in),
             *out = arena_array(arena, searches->feeds + 3, sizeof *out);
    const uint32_t iteration = graph_add_value(graph, NULL, 0), condition = graph_add_value(graph, NULL, 0);
    const uint32_t state = graph_add_value(graph, NULL, 0);

    if (in == NULL || out == NULL || iteration == INLAY_NONE || condition == INLAY_NONE || state == INLAY_NONE ||
        !put_step(searches, graph, graph->outputs[0], state))
        return false;
    in[0] = iteration;
    in[1] = condition;
    memcpy(in + 2, graph->inputs, searches->feeds * sizeof *in);
    in[2 + searches->feeds] = state;
    out[0] = searches->step[0];
    memcpy(out + 1, graph->inputs, searches->feeds * sizeof *out); /* what is not made anew stays */
    out[1] = searches->step[2];
    if (searches->encoder == NULL) {
        out[2] = searches->step[4];
        out[3] = searches->step[5];
    }
    for (uint32_t i = 0; i < searches->pasts; i++)
        out[1 + searches->fixed + i] = searches->beams ? gather(searches, graph, graph->outputs[1 + i],
                                                                searches->step[3], searches->encoder == NULL)
                                                       : graph->outputs[1 + i];
    out[1 + searches->feeds] = searches->step[1];
    if (searches->scored)
        out[2 + searches->feeds] = searches->step[6];
    graph->inputs = in;
    graph->input_count = searches->feeds + 3;
    graph->outputs = out;
    graph->output_count = searches->feeds + 2 + searches->scored;
    return !searches->maker.failed;
}

/* What the decoder alone captures. */
static bool take_body(struct searches *searches, graph_node *loop)
{
    struct arena *arena = &searches->maker.ctx->model->arena;
    graph_body *body = arena_alloc(arena, sizeof *body);
    uint32_t *captures = arena_array(arena, searches->decoder->capture_count + 1, sizeof *captures);

    if (body == NULL || captures == NULL)
        return false;
    *body = *searches->decoder;
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

static graph_node *put_loop(struct searches *searches, uint32_t go, const uint32_t *feeds, uint32_t state)
{
    const uint32_t ins = searches->feeds + 3, outs = searches->feeds + 1 + searches->scored;
    uint32_t *inputs = arena_array(&searches->maker.ctx->model->arena, ins, sizeof *inputs);
    graph_node *loop;

    if (inputs == NULL || !turn_decoder(searches))
        return NULL;
    inputs[0] = INLAY_NONE;
    inputs[1] = go;
    memcpy(inputs + 2, feeds, searches->feeds * sizeof *feeds);
    inputs[2 + searches->feeds] = state;
    loop = make_node(&searches->maker, searches->graph, NULL, "Loop", 16, inputs, ins, outs);
    if (loop == NULL || !take_body(searches, loop))
        return NULL;
    for (uint32_t o = 0; o < searches->feeds; o++) /* only the state is read */
        ((uint32_t *)(uintptr_t)loop->info.outputs)[o] = INLAY_NONE;
    return loop;
}

/* ------------------------------------------------------------------ behind the Loop */

static bool put_end(struct searches *searches, const graph_node *loop, uint32_t first_scores)
{
    const inlay_node_info *node = &searches->node->info;
    uint32_t scores = searches->scored ? loop->info.outputs[searches->feeds + 1] : INLAY_NONE, *made;
    graph_node *end;

    if (first_scores != INLAY_NONE) {
        const int64_t zero = 0;
        const uint32_t row[] = { first_scores, integers(searches, &zero, 1) };
        const uint32_t both[] = { make_value(&searches->maker, searches->graph, "Unsqueeze", 13, row, 2, NULL, 0),
                                  scores };

        scores = make_value(&searches->maker, searches->graph, "Concat", 13, both, 2, "axis", 0);
    }
    end = make_node(&searches->maker, searches->graph, ours, "SearchEnd", 1,
                    (const uint32_t[]){ loop->info.outputs[searches->feeds], scores }, 2, node->output_count);
    if (end == NULL)
        return false;
    made = (uint32_t *)(uintptr_t)end->info.outputs;
    for (uint32_t output = 0; output < node->output_count; output++) {
        graph_node *cast;

        if (output == 0 || node->outputs[output] == INLAY_NONE ||
            searches->graph->values[node->outputs[output]].info.dtype != INLAY_FLOAT16) {
            made[output] = node->outputs[output];
            continue;
        }
        cast = make_node(&searches->maker, searches->graph, NULL, "Cast", 13, &made[output], 1, 1);
        if (cast == NULL || graph_set_attr_int(searches->graph, cast, "to", INLAY_FLOAT16) != INLAY_OK)
            return false;
        ((uint32_t *)(uintptr_t)cast->info.outputs)[0] = node->outputs[output];
    }
    return !searches->maker.failed;
}

static bool decompose(struct searches *searches)
{
    uint32_t *feeds = arena_array(&searches->maker.ctx->model->arena, searches->feeds + 1, sizeof *feeds), go, state,
             scores = INLAY_NONE;
    const graph_node *loop;

    if (feeds == NULL || !graph_model_import(searches->maker.ctx->model, ours, 1) ||
        !put_front(searches, &go, feeds, &state, &scores))
        return false;
    loop = put_loop(searches, go, feeds, state);
    return loop != NULL && put_end(searches, loop, scores);
}

static inlay_status visit(pass_ctx *ctx, struct graph *graph, bool *changed)
{
    const uint32_t nodes = graph->node_count;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < nodes; i++) {
        struct searches searches = { .maker = { .ctx = ctx, .like = graph->nodes[i] },
                                     .graph = graph,
                                     .node = graph->nodes[i] };
        inlay_status status;

        if (!is_search(&searches)) {
            graph->nodes[kept++] = graph->nodes[i];
            continue;
        }
        if (!fits(&searches))
            return graph_fail(
                graph, searches.node, NULL, INLAY_UNSUPPORTED, ctx->diag,
                "its bodies are neither a decoder alone nor the encoder and decoder of T5 or of Whisper with "
                "decoder_input_ids (model_type 0, 1 and 2, past and present in buffers of their own, no "
                "logits_processor)");
        status = type_guard_expect(ctx, graph, searches.node);
        if (status != INLAY_OK)
            return status;
        if (!decompose(&searches))
            return no_memory(ctx->diag, "to make a Loop of node '%s'", searches.node->info.name.data);
        pass_count(ctx, graph, searches.node, "Loop");
        *changed = true;
    }
    for (uint32_t i = nodes; i < graph->node_count; i++)
        graph->nodes[kept++] = graph->nodes[i];
    graph->node_count = kept;
    return INLAY_OK;
}

inlay_status pass_searches(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
