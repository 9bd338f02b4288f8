#include "plan/program/region_key.h"
#include "base/hash.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include <stdlib.h>
#include <string.h>

/* A key being computed. Values and symbols are numbered in the order in which the region mentions them. */
typedef struct key_state {
    const inlay_graph *graph;
    uint64_t hash;
    uint32_t *value_numbers;  /* [value_count] 0 = not mentioned yet */
    uint32_t *symbol_numbers; /* [symbol_count] likewise */
    uint32_t value_count;     /* values mentioned */
    uint32_t symbol_count;
    bool has_expressions; /* a symbol is an expression of others */
} key_state;

static void mix(key_state *key, uint64_t value)
{
    key->hash = hash_u64(key->hash, value);
}

static void mix_bytes(key_state *key, const void *data, uint64_t bytes)
{
    mix(key, bytes);
    key->hash = hash_bytes(data, (size_t)bytes, key->hash);
}

static void mix_dim(key_state *key, const inlay_dim *dim)
{
    const inlay_symbol_info *symbol;

    mix(key, dim->kind);
    mix(key, dim->kind == INLAY_DIM_FIXED ? (uint64_t)dim->value : 0);
    if (dim->kind != INLAY_DIM_SYMBOLIC)
        return;
    INLAY_CHECK(dim->symbol < key->graph->symbol_count);
    if (key->symbol_numbers[dim->symbol] == 0) {
        symbol = INLAY_AT(inlay_symbol_info, key->graph->symbols, key->graph->symbol_stride, dim->symbol);
        key->symbol_numbers[dim->symbol] = ++key->symbol_count;
        key->has_expressions |= symbol->name.bytes > 0 && symbol->name.data[0] == '(';
        mix(key, (uint64_t)symbol->min);
        mix(key, (uint64_t)symbol->max);
    }
    mix(key, key->symbol_numbers[dim->symbol]);
}

static void mix_known_elements(key_state *key, const inlay_value_info *value)
{
    if ((value->flags & INLAY_VALUE_CONSTANT) != 0) {
        INLAY_CHECK(value->content_hash != 0);
        mix(key, value->content_hash);
        return;
    }
    mix(key, value->data != NULL);
    if (value->data != NULL && value->dtype != INLAY_STRING)
        mix_bytes(key, value->data, value->data_bytes);
    mix(key, value->element_count);
    for (uint64_t i = 0; value->elements != NULL && i < value->element_count; i++)
        mix_dim(key, &value->elements[i]);
}

/* Adds a value to the key: at its first mention type, shape and known elements, at later mentions only its number. */
static void mix_value(key_state *key, uint32_t index)
{
    const inlay_value_info *value = inlay_graph_value(key->graph, index);

    if (value == NULL || key->value_numbers[index] != 0) {
        mix(key, value != NULL ? key->value_numbers[index] : 0);
        return;
    }
    mix(key, key->value_numbers[index] = ++key->value_count);
    mix(key, (uint64_t)value->kind << 32 | (value->flags & INLAY_VALUE_CONSTANT));
    mix(key, (uint64_t)value->dtype);
    mix(key, value->rank);
    for (uint32_t i = 0; value->rank != INLAY_RANK_UNKNOWN && i < value->rank; i++)
        mix_dim(key, &value->dims[i]);
    mix_known_elements(key, value);
}

static void mix_values(key_state *key, const uint32_t *values, uint32_t count)
{
    mix(key, count);
    for (uint32_t i = 0; i < count; i++)
        mix_value(key, values[i]);
}

/* A relation between symbols is in their names only ("(height/2)"). Where a region has one, all names count. */
static void mix_symbol_names(key_state *key)
{
    for (uint32_t number = 1; key->has_expressions && number <= key->symbol_count; number++)
        for (uint32_t i = 0; i < key->graph->symbol_count; i++)
            if (key->symbol_numbers[i] == number) {
                const inlay_symbol_info *symbol =
                    INLAY_AT(inlay_symbol_info, key->graph->symbols, key->graph->symbol_stride, i);

                mix_bytes(key, symbol->name.data, symbol->name.bytes);
            }
}

static void mix_node(key_state *key, const inlay_node_info *node)
{
    key->hash = graph_hash_node(node, key->hash);
    mix_values(key, node->inputs, node->input_count);
    mix_values(key, node->outputs, node->output_count);
    mix(key, node->body_count);
    for (uint32_t i = 0; i < node->body_count; i++) {
        const inlay_body *body = INLAY_AT(inlay_body, node->bodies, node->body_stride, i);

        mix(key, body->graph->content_hash);
        mix_values(key, body->capture_outer, body->capture_count);
        mix_bytes(key, body->capture_inner, body->capture_count * sizeof *body->capture_inner);
    }
}

/* Domain ids change between runs of the program; the index of the provider's domain does not. */
static void mix_placement(key_state *key, const inlay_placement *placement, uint32_t first_domain)
{
    mix(key, placement->domain == INLAY_DOMAIN_HOST ? UINT64_MAX : placement->domain - first_domain);
    mix(key, (uint64_t)placement->dtype);
}

static void mix_profile(key_state *key, const inlay_compile_request *request)
{
    mix(key, request->profile != NULL);
    for (uint32_t i = 0; request->profile != NULL && i < request->input_count; i++) {
        const inlay_value_state *state =
            INLAY_AT(inlay_value_state, request->profile, request->profile_stride, request->inputs[i]);

        mix(key, state->rank);
        if (state->rank != INLAY_RANK_UNKNOWN && state->dims != NULL)
            mix_bytes(key, state->dims, state->rank * sizeof *state->dims);
    }
}

static uint64_t hash_region(key_state *key, const partition_provider *provider, const inlay_fingerprint *fingerprint,
                            const inlay_compile_request *request)
{
    const char *build = provider->build_id != NULL ? provider->build_id : "";

    mix_bytes(key, provider->table->name, strlen(provider->table->name));
    mix_bytes(key, build, strlen(build));
    mix(key, provider->settings_hash);
    mix_bytes(key, fingerprint->data, fingerprint->bytes);
    mix_values(key, request->inputs, request->input_count);
    mix(key, request->node_count);
    for (uint32_t i = 0; i < request->node_count; i++)
        mix_node(key, inlay_graph_node(request->graph, request->nodes[i]));
    mix_values(key, request->outputs, request->output_count);
    for (uint32_t i = 0; i < request->input_count + request->output_count; i++)
        mix_placement(key, INLAY_AT(inlay_placement, request->placements, request->placement_stride, i),
                      provider->first_domain);
    mix_symbol_names(key);
    if ((fingerprint->flags & INLAY_FINGERPRINT_THREADS) != 0)
        mix(key, request->max_threads);
    if ((fingerprint->flags & INLAY_FINGERPRINT_PROFILE) != 0)
        mix_profile(key, request);
    return key->hash;
}

bool region_key_of(const partition_provider *provider, const inlay_fingerprint *fingerprint,
                   const inlay_compile_request *request, region_key *out_key)
{
    const inlay_graph *graph = request->graph;
    bool good = true;

    for (int word = 0; good && word < 2; word++) {
        key_state key = { .graph = graph,
                          .hash = (uint64_t)word + 1,
                          .value_numbers = calloc((size_t)graph->value_count + 1, sizeof *key.value_numbers),
                          .symbol_numbers = calloc((size_t)graph->symbol_count + 1, sizeof *key.symbol_numbers) };

        good = key.value_numbers != NULL && key.symbol_numbers != NULL;
        if (good)
            out_key->word[word] = hash_region(&key, provider, fingerprint, request);
        free(key.value_numbers);
        free(key.symbol_numbers);
    }
    return good;
}

static uint64_t hash_state(uint64_t hash, const inlay_specialize_request *request, const inlay_graph *graph,
                           uint32_t value)
{
    const inlay_value_state *state = INLAY_AT(inlay_value_state, request->values, request->value_stride, value);
    const inlay_value_info *info = inlay_graph_value(graph, value);

    hash = hash_u64(hash_u64(hash, (uint64_t)state->dtype), state->rank);
    if (state->rank != INLAY_RANK_UNKNOWN && state->dims != NULL)
        hash = hash_bytes(state->dims, state->rank * sizeof *state->dims, hash);
    if (state->data == NULL || state->dtype == INLAY_STRING || (info->flags & INLAY_VALUE_CONSTANT) != 0)
        return hash;
    return hash_bytes(state->data, (size_t)state->data_bytes, hash_u64(hash, state->data_bytes));
}

region_key region_key_with_shapes(const region_key *key, const inlay_graph *graph, const partition_region *region,
                                  const inlay_specialize_request *request)
{
    region_key made;

    for (int word = 0; word < 2; word++) {
        uint64_t hash = hash_u64(key->word[word], 1);

        for (uint32_t i = 0; i < region->input_count; i++) {
            hash = hash_state(hash, request, graph, region->inputs[i]);
            hash = hash_u64(hash, request->rooms != NULL ? request->rooms[i] : 0);
        }
        for (uint32_t n = 0; n < region->node_count; n++) {
            const inlay_node_info *node = inlay_graph_node(graph, region->nodes[n]);

            for (uint32_t i = 0; i < node->output_count; i++)
                if (node->outputs[i] != INLAY_NONE)
                    hash = hash_state(hash, request, graph, node->outputs[i]);
        }
        made.word[word] = hash;
    }
    return made;
}
