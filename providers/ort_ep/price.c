/* Prices: a library does not say how long its nodes take, so times are measured. Nodes that have run at the same sizes
 * have the shortest of these times as price. At other sizes the price is estimated from the times at two sizes or more:
 * a part that does not depend on the size, and one that is proportional to the number of elements. Nodes without either
 * have no price: the host then uses them where no other provider can run them, where the user asks for it, or when
 * `inlay tune` measures them. */
#include "ort_ep/provider.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PRICES = 65536 };

typedef struct ep_price {
    uint64_t key, structure, elements;
    double ns; /* the shortest run; 0: none yet */
} ep_price;
struct ep_prices {
    char *settings;
    pthread_mutex_t lock;
    ep_price *list; /* [count] */
    size_t count;
    struct ep_prices *next;
};

/* Of all libraries and settings in this process. */
static struct {
    pthread_mutex_t lock;
    ep_prices *first;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

ep_prices *ep_prices_open(const char *const *texts, size_t count)
{
    ep_prices *prices;
    char *settings = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&settings, &bytes);

    for (size_t i = 0; file != NULL && i < count; i++)
        (void)fprintf(file, "%s\n", texts[i] != NULL ? texts[i] : "");
    if (file == NULL || fclose(file) != 0 || settings == NULL)
        return NULL;
    (void)pthread_mutex_lock(&all.lock);
    prices = all.first;
    while (prices != NULL && strcmp(prices->settings, settings) != 0)
        prices = prices->next;
    if (prices == NULL && (prices = calloc(1, sizeof *prices)) != NULL) {
        (void)pthread_mutex_init(&prices->lock, NULL);
        prices->settings = settings;
        prices->next = all.first;
        all.first = prices;
        settings = NULL;
    }
    (void)pthread_mutex_unlock(&all.lock);
    free(settings);
    return prices;
}

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

/* values are parallel to those of the graph. */
static uint64_t ep_signature_key(const ep_signature *signature, const inlay_value_state *values, uint32_t value_stride)
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

/* The number of elements of these values; 0 if a shape is not known. */
static uint64_t ep_signature_elements(const ep_signature *signature, const inlay_value_state *values,
                                      uint32_t value_stride)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < signature->count; i++) {
        const inlay_value_state *value;
        uint64_t elements = 1;

        if (signature->values[i] == INLAY_NONE)
            continue;
        value = INLAY_AT(inlay_value_state, values, value_stride, signature->values[i]);
        if (value->rank == INLAY_RANK_UNKNOWN)
            return 0;
        for (uint32_t d = 0; d < value->rank; d++) {
            if (value->dims[d] < 0)
                return 0;
            elements *= (uint64_t)value->dims[d];
        }
        sum += elements;
    }
    return sum;
}

static ep_price *find(const ep_prices *prices, uint64_t key)
{
    for (size_t i = 0; i < prices->count; i++)
        if (prices->list[i].key == key)
            return &prices->list[i];
    return NULL;
}

size_t ep_price_place(ep_prices *prices, const ep_signature *signature, const inlay_value_state *values,
                      uint32_t value_stride)
{
    const uint64_t key = ep_signature_key(signature, values, value_stride);
    size_t place = SIZE_MAX;
    const ep_price *price;

    (void)pthread_mutex_lock(&prices->lock);
    price = find(prices, key);
    if (price != NULL) {
        place = (size_t)(price - prices->list);
    } else if (prices->count < MOST_PRICES && ORT_GROW(prices->list, prices->count)) {
        place = prices->count++;
        prices->list[place] = (ep_price){ .key = key,
                                          .structure = signature->structure,
                                          .elements = ep_signature_elements(signature, values, value_stride) };
    }
    (void)pthread_mutex_unlock(&prices->lock);
    return place;
}

void ep_price_learn(ep_prices *prices, size_t place, double ns)
{
    ep_price *price;

    if (place == SIZE_MAX)
        return;
    (void)pthread_mutex_lock(&prices->lock);
    price = &prices->list[place];
    price->ns = price->ns == 0 || ns < price->ns ? ns : price->ns;
    (void)pthread_mutex_unlock(&prices->lock);
}

/* The time at another size by the line of least squares through the measured ones; 0: fewer than two sizes are known.
 * The estimate is no less than the shortest time, if the size is not smaller than that one's, and no less than the
 * share of that time otherwise. */
static double estimate(const ep_prices *prices, uint64_t structure, uint64_t elements)
{
    double count = 0, mean_size = 0, mean_ns = 0, covariance = 0, variance = 0, slope, least;
    const ep_price *shortest = NULL;

    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < prices->count; i++) {
            const ep_price *price = &prices->list[i];
            const double size = (double)price->elements;

            if (price->structure != structure || price->ns == 0 || price->elements == 0)
                continue;
            if (pass == 0) {
                count++;
                mean_size += size;
                mean_ns += price->ns;
                shortest = shortest == NULL || price->ns < shortest->ns ? price : shortest;
            } else {
                covariance += (size - mean_size) * (price->ns - mean_ns);
                variance += (size - mean_size) * (size - mean_size);
            }
        }
        mean_size /= pass == 0 && count > 0 ? count : 1;
        mean_ns /= pass == 0 && count > 0 ? count : 1;
    }
    if (shortest == NULL || variance <= 0 || elements == 0)
        return 0;
    slope = covariance > 0 ? covariance / variance : 0;
    least = shortest->ns * (elements < shortest->elements ? (double)elements / (double)shortest->elements : 1);
    return mean_ns + slope * ((double)elements - mean_size) > least ? mean_ns + slope * ((double)elements - mean_size)
                                                                    : least;
}

inlay_status ep_cost(void *state_, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    const ep_state *state = state_;
    ep_prices *prices = state->prices;
    ep_signature signature = { 0 };
    const ep_price *price;
    double ns;

    if (!ep_signature_init(&signature, request->graph, request->offer->nodes, request->offer->node_count))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a price");
    (void)pthread_mutex_lock(&prices->lock);
    price = find(prices, ep_signature_key(&signature, request->values, request->value_stride));
    if (price != NULL && price->ns > 0) {
        ns = price->ns;
        out->confidence = INLAY_CONFIDENCE_MEASURED;
    } else {
        ns = estimate(prices, signature.structure,
                      ep_signature_elements(&signature, request->values, request->value_stride));
        out->confidence = INLAY_CONFIDENCE_MODEL;
    }
    (void)pthread_mutex_unlock(&prices->lock);
    ep_signature_deinit(&signature);
    if (ns == 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "%s states no prices, and the nodes have not run yet; `inlay tune` measures them",
                          state->name);
    out->ns = ns;
    return INLAY_OK;
}
