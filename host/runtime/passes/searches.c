/* Decomposes BeamSearch, WhisperBeamSearch, GreedySearch and Sampling of com.microsoft into a Loop around their
 * decoder. The loop body contains a step of the search:
 *
 *     ids, state = SearchStart(prompt, settings)
 *     Loop: logits, presents = decoder(ids, pasts);  go, state, ids, rows = SearchStep(logits, state)
 *           pasts = Gather(presents, rows)
 *     sequences = SearchEnd(state)
 *
 * For a decoder that reads encoder results (T5, Whisper), these are repeated for each row. If the first decoder step
 * has its own body (`init_decoder`, or the encoder's), it is inlined before the Loop. Level 0, because no provider runs
 * nodes with such bodies. Unsupported forms (shared buffers for past and present) are therefore an error. */
#include "base/among.h"
#include "passes/body_nodes.h"
#include "passes/type_guard.h"
#include <string.h>

static const char INLAY_DOMAIN[] = "ai.inlay";
enum { MAX_PASTS = 1024 };

/* A search node and the parts of its decomposition. */
typedef struct search_decomposition {
    node_maker maker;
    struct graph *graph;
    graph_node *node;
    const graph_body *decoder, *encoder, *first_decoder;
    bool sampling, beams, has_scores;
    bool is_whisper;         /* Whisper: the encoder reads audio, and the prompt is the decoder's first input */
    uint32_t leading_inputs; /* number of decoder inputs before the pasts */
    uint32_t pasts;          /* number of pasts that the decoder updates; constant ones may follow */
    uint32_t decoder_inputs; /* number of decoder inputs */
    uint32_t start[6], step[7];
} search_decomposition;

static uint32_t emit_gather(search_decomposition *search, struct graph *graph, uint32_t from, uint32_t rows,
                            int64_t axis)
{
    return make_value(&search->maker, graph, "Gather", 13, (const uint32_t[]){ from, rows }, 2, "axis", axis);
}

static uint32_t emit_integers(search_decomposition *search, const int64_t *values, int64_t count)
{
    return make_constant(&search->maker, search->graph, INLAY_INT64, 1, count, values, (size_t)count * sizeof *values);
}

/* The declared size of axis d of a graph input; -1: none. */
static int64_t declared_dim(const struct graph *graph, uint32_t input, uint32_t d)
{
    const graph_value *value = &graph->values[graph->inputs[input]];

    return value->declared && value->declared_rank > d && value->declared_rank != INLAY_RANK_UNKNOWN &&
                   value->declared_dims[d].kind == INLAY_DIM_FIXED
               ? value->declared_dims[d].value
               : -1;
}

/* Returns true if the sizes of the pasts' heads are declared: [2, rows, heads, length, size], or with an encoder [rows,
 * heads, length, size]. */
static bool has_past_sizes(const search_decomposition *search)
{
    const uint32_t heads = search->encoder != NULL ? 1 : 2;

    return declared_dim(search->decoder->graph, search->leading_inputs, heads) > 0 &&
           declared_dim(search->decoder->graph, search->leading_inputs, heads + 2) > 0;
}

/* Decoder only: input_ids, position_ids, attention_mask, pasts -> logits, presents. */
static bool is_decoder_only(search_decomposition *search)
{
    const struct graph *graph = search->decoder->graph;

    search->leading_inputs = 3;
    search->decoder_inputs = graph->input_count;
    search->pasts = graph->output_count - 1;
    return graph->input_count == 3 + search->pasts && has_past_sizes(search) &&
           (search->first_decoder == NULL || (search->first_decoder->graph->input_count == search->decoder_inputs &&
                                              search->first_decoder->graph->output_count == graph->output_count));
}

/* Encoder and decoder: input_ids, encoder_attention_mask, encoder_hidden_states?, own pasts, encoder results -> logits,
 * own presents. The encoder body may include the decoder's first step. */
static bool is_encoder_decoder(search_decomposition *search)
{
    const struct graph *graph = search->decoder->graph, *encoder = search->encoder->graph;
    const bool first_step_inlined = encoder->input_count == 3;

    if (graph->input_count < 3 || search->first_decoder != NULL || (encoder->input_count != 2 && !first_step_inlined))
        return false;
    search->leading_inputs =
        strcmp(graph->values[graph->inputs[2]].info.name.data, "encoder_hidden_states") == 0 ? 3 : 2;
    search->decoder_inputs = graph->input_count;
    search->pasts = graph->output_count - 1;
    if (search->decoder_inputs < search->leading_inputs + search->pasts)
        return false;
    return first_step_inlined
               ? encoder->output_count == search->decoder_inputs - search->leading_inputs + 2
               : search->leading_inputs == 2 &&
                     encoder->output_count == search->decoder_inputs - search->leading_inputs - search->pasts &&
                     has_past_sizes(search);
}

/* Whisper: input_ids, encoder_hidden_states?, own pasts, encoder results. The encoder body runs the decoder on
 * decoder_input_ids. */
static bool is_whisper_model(search_decomposition *search)
{
    const struct graph *graph = search->decoder->graph, *encoder = search->encoder->graph;
    const uint32_t processor = search->node->info.input_count > 11 ? search->node->info.inputs[11] : INLAY_NONE;
    const void *rules = processor != INLAY_NONE ? search->graph->values[processor].info.data : NULL;

    if (graph->input_count < 2 || search->first_decoder != NULL || encoder->input_count != 2 ||
        search->node->info.input_count < 11 || search->node->info.inputs[10] == INLAY_NONE ||
        search->node->info.output_count > 3 ||
        (processor != INLAY_NONE && (rules == NULL || *(const int32_t *)rules != 0)))
        return false;
    search->is_whisper = true;
    search->leading_inputs =
        strcmp(graph->values[graph->inputs[1]].info.name.data, "encoder_hidden_states") == 0 ? 2 : 1;
    search->decoder_inputs = graph->input_count;
    search->pasts = graph->output_count - 1;
    return search->decoder_inputs >= search->leading_inputs + search->pasts &&
           encoder->output_count == search->decoder_inputs - search->leading_inputs + 2;
}

static bool is_search(search_decomposition *search)
{
    const inlay_node_info *node = &search->node->info;

    if (search->node->schema == NULL || strcmp(node->domain.data, "com.microsoft") != 0)
        return false;
    search->beams =
        strcmp(node->op_type.data, "BeamSearch") == 0 || strcmp(node->op_type.data, "WhisperBeamSearch") == 0;
    search->sampling = strcmp(node->op_type.data, "Sampling") == 0;
    return search->beams || search->sampling || strcmp(node->op_type.data, "GreedySearch") == 0;
}

static bool is_supported(search_decomposition *search)
{
    const graph_node *node = search->node;
    const inlay_attr_info *type = graph_attr(node, "model_type");
    const int64_t kind = type != NULL ? type->i : node->info.op_type.data[0] == 'W' ? 2 : 0;

    search->decoder = graph_body_named(node, "decoder");
    search->encoder = graph_body_named(node, "encoder");
    search->first_decoder = graph_body_named(node, "init_decoder");
    if (search->decoder == NULL || search->decoder->graph->output_count < 2 ||
        search->decoder->graph->output_count > MAX_PASTS || search->decoder->graph->input_count > MAX_PASTS)
        return false;
    search->has_scores =
        node->info.output_count > (search->beams ? 2 : 1) && node->info.outputs[search->beams ? 2 : 1] != INLAY_NONE;
    if (kind == 0)
        return search->encoder == NULL && is_decoder_only(search);
    return search->beams && search->encoder != NULL &&
           (kind == 1 ? is_encoder_decoder(search) : kind == 2 && is_whisper_model(search));
}

/* Attributes of WhisperBeamSearch that apply to the search. */
static bool is_setting(const char *name)
{
    return is_among(name, "early_stopping eos_token_id no_repeat_ngram_size pad_token_id vocab_size");
}

/* Emits SearchStart with the settings in the order of its inputs. */
static bool emit_search_start(search_decomposition *search)
{
    static const uint32_t beam_inputs[12] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, INLAY_NONE, INLAY_NONE };
    static const uint32_t greedy_inputs[12] = { 0, 1, 2, INLAY_NONE, INLAY_NONE, INLAY_NONE, 3, 4, 5, 6, 7, 8 };
    const struct graph *graph = search->decoder->graph;
    uint32_t inputs[12];
    graph_node *start;

    for (uint32_t i = 0; i < 12; i++) {
        const uint32_t from = search->beams ? beam_inputs[i] : greedy_inputs[i];

        inputs[i] = from == INLAY_NONE || (from == 8 && !search->beams && !search->sampling)
                        ? INLAY_NONE
                        : graph_input_at(search->node, from);
    }
    if (search->is_whisper) {
        inputs[0] = graph_input_at(search->node, 10);
        inputs[9] = INLAY_NONE;
    }
    start = make_node(&search->maker, search->graph, INLAY_DOMAIN, "SearchStart", 1, inputs, 12, 6);
    if (start == NULL ||
        graph_set_attr_string(search->graph, start, "search",
                              search->beams      ? "beam"
                              : search->sampling ? "sample"
                                                 : "greedy") != INLAY_OK ||
        graph_set_attr_int(search->graph, start, "encoder", search->encoder != NULL && !search->is_whisper) !=
            INLAY_OK ||
        graph_set_attr_int(search->graph, start, "whole", search->encoder != NULL && declared_dim(graph, 0, 1) != 1) !=
            INLAY_OK)
        return false;
    for (uint32_t i = 0; i < search->node->info.attr_count; i++) {
        const inlay_attr_info *attribute =
            INLAY_AT(inlay_attr_info, search->node->info.attrs, search->node->info.attr_stride, i);

        if ((attribute->kind == INLAY_ATTR_INT || attribute->kind == INLAY_ATTR_FLOAT) &&
            strcmp(attribute->name.data, "model_type") != 0 &&
            (!search->is_whisper || is_setting(attribute->name.data)) &&
            graph_set_attr(search->graph, start, attribute) != INLAY_OK)
            return false;
    }
    memcpy(search->start, start->info.outputs, sizeof search->start);
    return true;
}

/* Emits an empty past, of length 0. */
static uint32_t emit_empty_past(search_decomposition *search)
{
    const struct graph *graph = search->decoder->graph;
    const uint32_t heads = search->encoder != NULL ? 1 : 2;
    const inlay_dtype dtype = graph->values[graph->inputs[search->leading_inputs]].declared_dtype;
    const int64_t two = 2, sizes[] = { declared_dim(graph, search->leading_inputs, heads), 0,
                                       declared_dim(graph, search->leading_inputs, heads + 2) };
    const uint32_t parts[] = { emit_integers(search, &two, 1), search->start[4], emit_integers(search, sizes, 3) };
    const uint32_t skip = search->encoder != NULL;
    const uint32_t shape = make_value(&search->maker, search->graph, "Concat", 13, parts + skip, 3 - skip, "axis", 0);
    const uint32_t past = make_value(&search->maker, search->graph, "ConstantOfShape", 9, &shape, 1, NULL, 0);

    return dtype == INLAY_FLOAT || dtype == INLAY_UNDEFINED
               ? past
               : make_value(&search->maker, search->graph, "Cast", 13, &past, 1, "to", dtype);
}

static bool emit_search_step(search_decomposition *search, struct graph *graph, uint32_t logits, uint32_t state)
{
    graph_node *step = make_node(&search->maker, graph, INLAY_DOMAIN, "SearchStep", 1,
                                 (const uint32_t[]){ logits, state }, 2, search->has_scores ? 7 : 6);

    if (step == NULL)
        return false;
    memcpy(search->step, step->info.outputs, step->info.output_count * sizeof *search->step);
    if (search->encoder != NULL)
        ((uint32_t *)(uintptr_t)step->info.outputs)[4] = ((uint32_t *)(uintptr_t)step->info.outputs)[5] = INLAY_NONE;
    return true;
}

/* Emits the initial values of the Loop: its condition, the decoder's inputs and the state. */
static bool emit_initial_values(search_decomposition *search, uint32_t *go, uint32_t *decoder_inputs, uint32_t *state,
                                uint32_t *scores)
{
    const uint8_t yes = 1;
    uint32_t *made = arena_array(&search->maker.ctx->model->arena, 2 * MAX_PASTS + 2, sizeof *made), past;
    const bool first_step_inlined =
        search->encoder != NULL && (search->is_whisper || search->encoder->graph->input_count == 3);

    if (made == NULL || !emit_search_start(search))
        return false;
    *go = make_constant(&search->maker, search->graph, INLAY_BOOL, 0, 0, &yes, sizeof yes);
    *state = search->start[3];
    memcpy(decoder_inputs, search->start, search->leading_inputs * sizeof *decoder_inputs);
    past = first_step_inlined ? INLAY_NONE : emit_empty_past(search);
    for (uint32_t i = 0; i < search->pasts; i++)
        decoder_inputs[search->leading_inputs + i] = past;
    if (search->encoder != NULL) {
        const uint32_t inputs[] = { search->node->info.inputs[0],
                                    search->is_whisper ? search->node->info.inputs[10] : search->start[2],
                                    search->start[0] };
        const uint32_t words = search->is_whisper ? 1 : 2;
        /* Index of the first decoder input from the encoder. */
        const uint32_t kept = first_step_inlined ? words : search->leading_inputs + search->pasts;
        /* Leading results of the encoder that are not decoder inputs. */
        const uint32_t skip = first_step_inlined ? 2 + words - search->leading_inputs : 0;

        make_body(&search->maker, search->graph, search->encoder, inputs, made);
        if (!search->is_whisper) {
            decoder_inputs[0] = emit_gather(search, search->graph, search->start[0], search->start[5], 0);
            decoder_inputs[1] = emit_gather(search, search->graph, search->start[2], search->start[5], 0);
        }
        for (uint32_t i = kept; i < search->decoder_inputs; i++)
            decoder_inputs[i] = emit_gather(search, search->graph, made[i - kept + skip], search->start[5], 0);
    } else if (search->first_decoder != NULL) {
        make_body(&search->maker, search->graph, search->first_decoder, decoder_inputs, made);
    }
    if (!first_step_inlined && search->first_decoder == NULL)
        return !search->maker.failed;
    if (!emit_search_step(search, search->graph, made[0], *state))
        return false;
    *go = search->step[0];
    *state = search->step[1];
    *scores = search->has_scores ? search->step[6] : INLAY_NONE;
    decoder_inputs[0] = search->step[2];
    if (search->first_decoder != NULL) {
        decoder_inputs[1] = search->step[4];
        decoder_inputs[2] = search->step[5];
        for (uint32_t i = 0; i < search->pasts; i++)
            decoder_inputs[3 + i] = emit_gather(search, search->graph, made[1 + i], search->step[3], 1);
    }
    return !search->maker.failed;
}

/* Turns the decoder into the loop body: iteration, condition, the decoder's inputs, the state. */
static bool make_loop_body(search_decomposition *search)
{
    struct graph *graph = search->decoder->graph;
    struct arena *arena = &search->maker.ctx->model->arena;
    uint32_t *in = arena_array(arena, search->decoder_inputs + 3, sizeof *in),
             *out = arena_array(arena, search->decoder_inputs + 3, sizeof *out);
    const uint32_t iteration = graph_add_value(graph, NULL, 0), condition = graph_add_value(graph, NULL, 0);
    const uint32_t state = graph_add_value(graph, NULL, 0);

    if (in == NULL || out == NULL || iteration == INLAY_NONE || condition == INLAY_NONE || state == INLAY_NONE ||
        !emit_search_step(search, graph, graph->outputs[0], state))
        return false;
    in[0] = iteration;
    in[1] = condition;
    memcpy(in + 2, graph->inputs, search->decoder_inputs * sizeof *in);
    in[2 + search->decoder_inputs] = state;
    out[0] = search->step[0];
    /* Inputs that no step updates are passed on. */
    memcpy(out + 1, graph->inputs, search->decoder_inputs * sizeof *out);
    out[1] = search->step[2];
    if (search->encoder == NULL) {
        out[2] = search->step[4];
        out[3] = search->step[5];
    }
    for (uint32_t i = 0; i < search->pasts; i++)
        out[1 + search->leading_inputs + i] =
            search->beams ? emit_gather(search, graph, graph->outputs[1 + i], search->step[3], search->encoder == NULL)
                          : graph->outputs[1 + i];
    out[1 + search->decoder_inputs] = search->step[1];
    if (search->has_scores)
        out[2 + search->decoder_inputs] = search->step[6];
    graph->inputs = in;
    graph->input_count = search->decoder_inputs + 3;
    graph->outputs = out;
    graph->output_count = search->decoder_inputs + 2 + search->has_scores;
    return !search->maker.failed;
}

/* Makes the decoder the body of the Loop, with the captures of the decoder only. */
static bool attach_body(search_decomposition *search, graph_node *loop)
{
    struct arena *arena = &search->maker.ctx->model->arena;
    graph_body *body = arena_alloc(arena, sizeof *body);
    uint32_t *captures = arena_array(arena, search->decoder->capture_count + 1, sizeof *captures);

    if (body == NULL || captures == NULL)
        return false;
    *body = *search->decoder;
    body->attr = "body";
    loop->bodies = body;
    loop->body_count = 1;
    loop->captures = captures;
    for (uint32_t i = 0; i < body->capture_count; i++) {
        bool known = false;

        for (uint32_t k = 0; k < loop->capture_count && !known; k++)
            known = captures[k] == body->capture_outer[i];
        if (!known)
            captures[loop->capture_count++] = body->capture_outer[i];
    }
    return true;
}

static graph_node *emit_loop(search_decomposition *search, uint32_t go, const uint32_t *decoder_inputs, uint32_t state)
{
    const uint32_t ins = search->decoder_inputs + 3, outs = search->decoder_inputs + 1 + search->has_scores;
    uint32_t *inputs = arena_array(&search->maker.ctx->model->arena, ins, sizeof *inputs);
    graph_node *loop;

    if (inputs == NULL || !make_loop_body(search))
        return NULL;
    inputs[0] = INLAY_NONE;
    inputs[1] = go;
    memcpy(inputs + 2, decoder_inputs, search->decoder_inputs * sizeof *decoder_inputs);
    inputs[2 + search->decoder_inputs] = state;
    loop = make_node(&search->maker, search->graph, NULL, "Loop", 16, inputs, ins, outs);
    if (loop == NULL || !attach_body(search, loop))
        return NULL;
    for (uint32_t i = 0; i < search->decoder_inputs; i++) /* only the state is read after the loop */
        ((uint32_t *)(uintptr_t)loop->info.outputs)[i] = INLAY_NONE;
    return loop;
}

static bool emit_search_end(search_decomposition *search, const graph_node *loop, uint32_t first_scores)
{
    const inlay_node_info *node = &search->node->info;
    uint32_t scores = search->has_scores ? loop->info.outputs[search->decoder_inputs + 1] : INLAY_NONE, *made;
    graph_node *end;

    if (first_scores != INLAY_NONE) {
        const int64_t zero = 0;
        const uint32_t row[] = { first_scores, emit_integers(search, &zero, 1) };
        const uint32_t both[] = { make_value(&search->maker, search->graph, "Unsqueeze", 13, row, 2, NULL, 0), scores };

        scores = make_value(&search->maker, search->graph, "Concat", 13, both, 2, "axis", 0);
    }
    end = make_node(&search->maker, search->graph, INLAY_DOMAIN, "SearchEnd", 1,
                    (const uint32_t[]){ loop->info.outputs[search->decoder_inputs], scores }, 2, node->output_count);
    if (end == NULL)
        return false;
    made = (uint32_t *)(uintptr_t)end->info.outputs;
    for (uint32_t output = 0; output < node->output_count; output++) {
        graph_node *cast;

        if (output == 0 || node->outputs[output] == INLAY_NONE ||
            search->graph->values[node->outputs[output]].info.dtype != INLAY_FLOAT16) {
            made[output] = node->outputs[output];
            continue;
        }
        cast = make_node(&search->maker, search->graph, NULL, "Cast", 13, &made[output], 1, 1);
        if (cast == NULL || graph_set_attr_int(search->graph, cast, "to", INLAY_FLOAT16) != INLAY_OK)
            return false;
        ((uint32_t *)(uintptr_t)cast->info.outputs)[0] = node->outputs[output];
    }
    return !search->maker.failed;
}

static bool decompose(search_decomposition *search)
{
    uint32_t *decoder_inputs =
                 arena_array(&search->maker.ctx->model->arena, search->decoder_inputs + 1, sizeof *decoder_inputs),
             go, state, scores = INLAY_NONE;
    const graph_node *loop;

    if (decoder_inputs == NULL || !graph_model_import(search->maker.ctx->model, INLAY_DOMAIN, 1) ||
        !emit_initial_values(search, &go, decoder_inputs, &state, &scores))
        return false;
    loop = emit_loop(search, go, decoder_inputs, state);
    return loop != NULL && emit_search_end(search, loop, scores);
}

static inlay_status visit(pass_ctx *ctx, struct graph *graph, bool *changed)
{
    const uint32_t nodes = graph->node_count;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < nodes; i++) {
        search_decomposition search = { .maker = { .ctx = ctx, .like = graph->nodes[i] },
                                        .graph = graph,
                                        .node = graph->nodes[i] };
        inlay_status status;

        if (!is_search(&search)) {
            graph->nodes[kept++] = graph->nodes[i];
            continue;
        }
        if (!is_supported(&search))
            return graph_fail(
                graph, search.node, NULL, INLAY_UNSUPPORTED, ctx->diag,
                "unsupported search: supported are decoder-only models, encoder-decoder models as of T5, and "
                "Whisper with decoder_input_ids (model_type 0, 1 and 2), with separate buffers for past and present "
                "and without logits_processor");
        status = type_guard_expect(ctx, graph, search.node);
        if (status != INLAY_OK)
            return status;
        if (!decompose(&search))
            return no_memory(ctx->diag, "to decompose node '%s'", search.node->info.name.data);
        pass_count(ctx, graph, search.node, "Loop");
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
