#include "partition/cost/cost_key.h"
#include "base/hash.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "partition/cost/cost_profile.h"
#include <string.h>

enum {
    SMALL_BYTES = 64,         /* constants up to this size are hashed by content */
    SHAPE_BYTES = 4096,       /* integers up to this size likewise, since they are shapes, axes or pads */
    MAX_DUPLICATE_INPUTS = 16 /* inputs of a node among which duplicate values are detected */
};

/* Adds the value to both hashes of the key, which start with different seeds. */
static void mix(cost_key *key, uint64_t value)
{
    key->word[0] = hash_u64(key->word[0], value);
    key->word[1] = hash_u64(key->word[1], value ^ UINT64_C(0x5bd1e995a7c3f1d7));
}

static void mix_bytes(cost_key *key, const void *data, size_t bytes)
{
    key->word[0] = hash_bytes(data, bytes, key->word[0]);
    key->word[1] = hash_bytes(data, bytes, key->word[1]);
}

static void mix_text(cost_key *key, inlay_str text)
{
    mix_bytes(key, text.data, (size_t)text.bytes);
}

uint64_t cost_identity(const char *name, const char *build_id, const void *device, size_t device_bytes,
                       uint64_t settings_hash)
{
    uint64_t hash = hash_bytes(name, strlen(name), 1);

    hash = build_id != NULL ? hash_bytes(build_id, strlen(build_id), hash) : hash_u64(hash, 0);
    hash = hash_bytes(device, device_bytes, hash);
    return hash_u64(hash, settings_hash);
}

static void mix_tensor(cost_key *key, const inlay_tensor_view *view)
{
    mix(key, (uint64_t)view->dtype);
    mix_bytes(key, view->dims, view->rank * sizeof *view->dims);
    if (view->bytes <= SHAPE_BYTES && view->dtype != INLAY_STRING)
        mix_bytes(key, view->data, (size_t)view->bytes);
}

static cost_key hash_attr(const inlay_attr_info *attribute)
{
    cost_key key = { { 1, 2 } };

    mix_text(&key, attribute->name);
    mix(&key, attribute->kind);
    switch (attribute->kind) {
    case INLAY_ATTR_FLOAT:
        mix_bytes(&key, &attribute->f, sizeof attribute->f);
        break;
    case INLAY_ATTR_INT:
        mix(&key, (uint64_t)attribute->i);
        break;
    case INLAY_ATTR_STRING:
        mix_text(&key, attribute->s);
        break;
    case INLAY_ATTR_TENSOR:
        if (attribute->tensor != NULL)
            mix_tensor(&key, attribute->tensor);
        break;
    case INLAY_ATTR_FLOATS:
        mix_bytes(&key, attribute->floats, attribute->count * sizeof *attribute->floats);
        break;
    case INLAY_ATTR_INTS:
        mix_bytes(&key, attribute->ints, attribute->count * sizeof *attribute->ints);
        break;
    case INLAY_ATTR_STRINGS:
        for (uint32_t i = 0; i < attribute->count; i++)
            mix_text(&key, attribute->strings[i]);
        break;
    default:
        break; /* not visible to providers */
    }
    return key;
}

/* The hash does not depend on the order of attributes. */
static void mix_attrs(cost_key *key, const inlay_node_info *node)
{
    cost_key sum = { { 0, 0 } };

    for (uint32_t i = 0; i < node->attr_count; i++) {
        cost_key one = hash_attr(INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, i));
        sum.word[0] += one.word[0];
        sum.word[1] += one.word[1];
    }
    mix(key, sum.word[0]);
    mix(key, sum.word[1]);
}

/* The node of the offer that computes the value: 1 + its index in the offer; 0: none. */
static uint32_t maker_in(const cost_question *question, uint32_t value)
{
    uint32_t producer = inlay_graph_value(question->graph, value)->producer, low = 0,
             high = question->offer->node_count;

    while (producer != INLAY_NONE && low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (question->offer->nodes[middle] == producer)
            return middle + 1;
        if (question->offer->nodes[middle] < producer)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

static uint32_t place_of(const uint32_t *list, uint32_t count, uint32_t value)
{
    uint32_t i = 0;

    while (i < count && list[i] != value)
        i++;
    return i;
}

static void mix_state(cost_key *key, const inlay_value_state *state)
{
    mix(key, (uint64_t)state->dtype);
    mix(key, state->rank);
    if (state->rank != INLAY_RANK_UNKNOWN && state->dims != NULL)
        mix_bytes(key, state->dims, state->rank * sizeof *state->dims);
}

static void mix_constant(cost_key *key, const inlay_value_info *value)
{
    bool integer = value->dtype == INLAY_INT64 || value->dtype == INLAY_INT32;

    mix(key, 1);
    if (value->dtype != INLAY_STRING && value->data_bytes <= (integer ? SHAPE_BYTES : SMALL_BYTES))
        mix_bytes(key, value->data, (size_t)value->data_bytes);
}

static void mix_input(cost_key *key, const cost_question *question, const inlay_node_info *node, uint32_t i)
{
    uint32_t value = node->inputs[i], maker;
    const inlay_value_info *info;

    if (value == INLAY_NONE) {
        mix(key, UINT64_MAX);
        return;
    }
    info = inlay_graph_value(question->graph, value);
    maker = maker_in(question, value);
    mix(key, maker);
    if (maker > 0) {
        const inlay_node_info *producer = inlay_graph_node(question->graph, question->offer->nodes[maker - 1]);
        mix(key, place_of(producer->outputs, producer->output_count, value));
        return;
    }
    mix(key, place_of(node->inputs, i < MAX_DUPLICATE_INPUTS ? i : MAX_DUPLICATE_INPUTS, value));
    mix_state(key, &question->values[value]);
    if ((info->flags & INLAY_VALUE_CONSTANT) != 0)
        mix_constant(key, info);
}

/* Placements are part of the key: a provider may use another kernel for another element type or domain. */
static void mix_placements(cost_key *key, const cost_question *question)
{
    mix(key, question->offer->placement_count);
    for (uint32_t i = 0; i < question->offer->placement_count; i++) {
        const inlay_placement *placement = &question->offer->placements[i];

        mix(key,
            placement->domain == INLAY_DOMAIN_HOST ? UINT64_MAX : placement->domain - question->provider->first_domain);
        mix(key, (uint64_t)placement->dtype);
    }
}

static void mix_bodies(cost_key *key, const inlay_node_info *node)
{
    for (uint32_t i = 0; i < node->body_count; i++)
        mix(key, INLAY_AT(inlay_body, node->bodies, node->body_stride, i)->graph->content_hash);
}

cost_key cost_key_of(const cost_question *question)
{
    const uint64_t identity = question->provider->identity;
    cost_key key = { { identity, hash_u64(identity, 2) } };

    INLAY_CHECK(question->offer->node_count > 0);
    mix(&key, profile_threads(question->max_threads));
    mix(&key, question->offer->node_count);
    for (uint32_t i = 0; i < question->offer->node_count; i++) {
        const inlay_node_info *node = inlay_graph_node(question->graph, question->offer->nodes[i]);

        mix_text(&key, node->domain);
        mix_text(&key, node->op_type);
        mix(&key, node->since_version);
        mix_attrs(&key, node);
        mix(&key, (uint64_t)node->input_count << 32 | node->output_count);
        mix_bodies(&key, node);
        for (uint32_t input = 0; input < node->input_count; input++)
            mix_input(&key, question, node, input);
        for (uint32_t output = 0; output < node->output_count; output++) {
            mix(&key, node->outputs[output] == INLAY_NONE);
            if (node->outputs[output] != INLAY_NONE)
                mix_state(&key, &question->values[node->outputs[output]]);
        }
    }
    mix_placements(&key, question);
    return key;
}

cost_key cost_key_of_timing(const partition_provider *provider, const void *key, uint64_t key_bytes)
{
    cost_key hashed = { { provider->identity, ~provider->identity } };

    mix(&hashed, UINT64_C(0x74696d696e677331)); /* distinguishes these keys from those of offers */
    mix(&hashed, key_bytes);
    mix_bytes(&hashed, key, (size_t)key_bytes);
    return hashed;
}

cost_key cost_key_without(const cost_whole_model *model, uint32_t left_out, uint32_t used)
{
    const uint64_t identity = model->providers[left_out].identity;
    cost_key key = { { hash_u64(identity, 3), identity } };

    INLAY_CHECK(left_out < model->provider_count && used < model->provider_count);
    mix(&key, UINT64_C(0x776974686f757432)); /* distinguishes these keys from the others */
    mix(&key, model->hash);
    mix(&key, profile_threads(model->max_threads));
    for (uint32_t i = 0; i < model->graph->input_count; i++)
        mix_state(&key, &model->values[model->graph->inputs[i]]);
    mix(&key, model->providers[used].identity);
    return key;
}
