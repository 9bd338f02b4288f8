/* Prices: a library does not say how long its nodes take, so times are measured. A group at shapes that has never run has
 * no price: the host then uses it where no other provider can run the nodes, where the user asks for it, or when
 * `inlay tune` measures it. */
#include "ort_ep/provider.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_PRICES = 65536, LEAST_RUNS = 2 };

struct ep_price {
    uint64_t key;
    double ns; /* the shortest run */
    uint32_t runs;
};

/* FNV-1a; the data of a key are small. */
static uint64_t add(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t add_node(uint64_t hash, const inlay_node_info *node)
{
    hash = add(hash, node->domain.data, (size_t)node->domain.bytes);
    hash = add(hash, node->op_type.data, (size_t)node->op_type.bytes);
    hash = add(hash, &node->since_version, sizeof node->since_version);
    for (uint32_t i = 0; i < node->attr_count; i++) {
        const inlay_attr_info *attribute = INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, i);

        hash = add(hash, attribute->name.data, (size_t)attribute->name.bytes);
        hash = add(hash, &attribute->i, sizeof attribute->i);
        hash = add(hash, &attribute->f, sizeof attribute->f);
        hash = add(hash, attribute->s.data, (size_t)attribute->s.bytes);
        hash = add(hash, attribute->ints, attribute->kind == INLAY_ATTR_INTS ? attribute->count * sizeof(int64_t) : 0);
    }
    return hash;
}

bool ep_signature_init(ep_signature *signature, const inlay_graph *graph, const uint32_t *nodes, uint32_t node_count)
{
    size_t count = 0;

    signature->structure = UINT64_C(0xcbf29ce484222325);
    for (uint32_t n = 0; n < node_count; n++) {
        const inlay_node_info *node = inlay_graph_node(graph, nodes[n]);

        signature->structure = add_node(signature->structure, node);
        count += (size_t)node->input_count + node->output_count;
    }
    signature->values = calloc(count + 1, sizeof *signature->values);
    if (signature->values == NULL)
        return false;
    for (uint32_t n = 0; n < node_count; n++) {
        const inlay_node_info *node = inlay_graph_node(graph, nodes[n]);

        for (uint32_t i = 0; i < node->input_count + node->output_count; i++)
            signature->values[signature->count++] =
                i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
    }
    return true;
}

void ep_signature_deinit(ep_signature *signature)
{
    free(signature->values);
}

uint64_t ep_signature_key(const ep_signature *signature, const inlay_value_state *values, uint32_t value_stride)
{
    uint64_t hash = signature->structure;

    for (size_t i = 0; i < signature->count; i++) {
        const inlay_value_state *value;

        hash = add(hash, &i, sizeof i);
        if (signature->values[i] == INLAY_NONE)
            continue;
        value = INLAY_AT(inlay_value_state, values, value_stride, signature->values[i]);
        hash = add(hash, &value->dtype, sizeof value->dtype);
        if (value->rank != INLAY_RANK_UNKNOWN)
            hash = add(hash, value->dims, value->rank * sizeof *value->dims);
    }
    return hash;
}

static ep_price *find(const ep_state *state, uint64_t key)
{
    for (size_t i = 0; i < state->price_count; i++)
        if (state->prices[i].key == key)
            return &state->prices[i];
    return NULL;
}

size_t ep_price_place(ep_state *state, uint64_t key)
{
    size_t place = SIZE_MAX;
    const ep_price *price;

    (void)pthread_mutex_lock(&state->price_lock);
    price = find(state, key);
    if (price != NULL) {
        place = (size_t)(price - state->prices);
    } else if (state->price_count < MOST_PRICES && ORT_GROW(state->prices, state->price_count)) {
        place = state->price_count++;
        state->prices[place] = (ep_price){ .key = key };
    }
    (void)pthread_mutex_unlock(&state->price_lock);
    return place;
}

void ep_price_learn(ep_state *state, size_t place, double ns)
{
    ep_price *price;

    if (place == SIZE_MAX)
        return;
    (void)pthread_mutex_lock(&state->price_lock);
    price = &state->prices[place];
    price->ns = price->runs == 0 || ns < price->ns ? ns : price->ns;
    price->runs++;
    (void)pthread_mutex_unlock(&state->price_lock);
}

inlay_status ep_cost(void *state_, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    ep_state *state = state_;
    ep_signature signature = { 0 };
    const ep_price *price;
    bool known;

    if (!ep_signature_init(&signature, request->graph, request->offer->nodes, request->offer->node_count))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a price");
    (void)pthread_mutex_lock(&state->price_lock);
    price = find(state, ep_signature_key(&signature, request->values, request->value_stride));
    known = price != NULL && price->runs >= LEAST_RUNS;
    if (known) {
        out->ns = price->ns;
        out->confidence = INLAY_CONFIDENCE_MEASURED;
    }
    (void)pthread_mutex_unlock(&state->price_lock);
    ep_signature_deinit(&signature);
    return known ? INLAY_OK
                 : inlay_fail(diag, INLAY_UNSUPPORTED,
                              "%s states no prices, and the nodes have not run at these sizes yet; `inlay tune` "
                              "measures them",
                              state->name);
}
