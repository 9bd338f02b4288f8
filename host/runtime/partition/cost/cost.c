#include "partition/cost/cost.h"
#include "base/among.h"
#include "base/device_link.h"
#include "base/memory.h"
#include "base/core_speed.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "kit/blocks.h"
#include "kit/memory_speed.h"
#include "partition/cost/cost_profile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Assumed cost of copies between domains without a machine profile. */
static const double COPY_LATENCY_NS = 10000, COPY_BYTES_PER_NS = 8;
/* Launch times above this are priced per region, so that merged regions pay once; smaller ones are part of each node's
 * price. */
static const double LAUNCH_NS = 2000;
/* Cost of reading weights from the shared cache, as a fraction of the cost of reading them from memory. */
static const double SHARED_SHARE = 0.15;
static const double FOLD_MAX_BYTES = 1 << 20; /* limit for tensors in shape arithmetic that the planner computes */

/* The data of the profile that concerns one provider. */
typedef struct book_provider {
    const partition_provider *provider;
    const profile_line **lines; /* [mask + 1] by class, open addressing; NULL: no profile */
    uint32_t mask;
    double factor; /* measured time / expected time; 0 = unknown */
    double border; /* the same for layout changes at region borders; 1 = unknown */
    double launch_ns;
    const profile_copy **to, **from; /* [domain_count] copy costs per domain; NULL where unknown */
} book_provider;

struct cost_book {
    struct arena arena;
    cost_profile profile;
    cost_store store;
    book_provider *providers;
    uint32_t provider_count;
};

const char *cost_source_name(uint32_t source)
{
    static const char *const names[] = { "none", "guess", "model", "claimed", "calibrated", "measured" };

    return source < sizeof names / sizeof names[0] ? names[source] : "none";
}

uint64_t cost_identity_of(const partition_provider *provider)
{
    inlay_fingerprint device = { .struct_size = sizeof device };
    inlay_diag why = INLAY_DIAG_INIT;
    char cpu[160] = "";

    if (provider->table->fingerprint == NULL ||
        provider->table->fingerprint(provider->state, &device, &why) != INLAY_OK) {
        profile_cpu(cpu, sizeof cpu);
        device.data = cpu;
        device.bytes = strlen(cpu);
    }
    return cost_identity(provider->name, provider->build_id, device.data, (size_t)device.bytes,
                         provider->settings_hash);
}

static const cost_record *find_measurement(const cost_book *book, cost_key key)
{
    return book != NULL && book->store.count > 0 ? cost_store_find(&book->store, key) : NULL;
}

double cost_timing(const cost_book *book, const partition_provider *provider, const void *key, uint64_t key_bytes)
{
    const cost_record *record = find_measurement(book, cost_key_of_timing(provider, key, key_bytes));

    return record != NULL ? record->ns : -1;
}

bool cost_is_left_out(const cost_book *book, const cost_whole_model *model, uint32_t provider)
{
    const cost_record *latest = NULL;
    uint32_t found = 0; /* of the providers that the latest result needs */

    for (uint32_t used = 0; used < model->provider_count; used++) {
        const cost_record *record = find_measurement(book, cost_key_without(model, provider, used));

        if (record == NULL || record->ns <= 0)
            continue;
        if (latest == NULL || (record->ns != latest->ns && record->when > latest->when)) {
            latest = record;
            found = 0;
        }
        found += record->ns == latest->ns;
    }
    return latest != NULL && found >= latest->ns;
}

/* Selects the thread count of the profile that is nearest to the session's, as a ratio. */
static uint32_t nearest_threads(const profile_provider *provider, uint32_t wanted)
{
    uint32_t best = 0;
    double best_off = 0;

    for (uint32_t i = 0; i < provider->line_count; i++) {
        double off = fabs(log((double)provider->lines[i].threads / wanted));
        if (best == 0 || off < best_off) {
            best = provider->lines[i].threads;
            best_off = off;
        }
    }
    return best;
}

static bool same_class(const cost_class *a, const cost_class *b)
{
    return a->variant == b->variant && a->dtype == b->dtype && strcmp(a->op, b->op) == 0;
}

static const profile_line *find_line(const book_provider *provider, const cost_class *class)
{
    const profile_line *line;

    INLAY_CHECK((provider->mask & (provider->mask + 1)) == 0);
    for (uint64_t at = cost_class_hash(class); (line = provider->lines[at & provider->mask]) != NULL; at++)
        if (same_class(&line->class, class))
            return line;
    return NULL;
}

static bool add_lines(cost_book *book, book_provider *provider, const profile_provider *profile, uint32_t threads)
{
    uint32_t size = 16;
    double least = -1;

    INLAY_CHECK(threads > 0 || profile->line_count == 0);
    while (size < 2 * profile->line_count)
        size *= 2;
    provider->lines = arena_array(&book->arena, size, sizeof(profile_line *));
    provider->mask = size - 1;
    for (uint32_t i = 0; provider->lines != NULL && i < profile->line_count; i++) {
        uint64_t at = cost_class_hash(&profile->lines[i].class);
        double launch = profile->lines[i].fit.ns_per[FIT_ONE];

        if (profile->lines[i].threads != threads || find_line(provider, &profile->lines[i].class) != NULL)
            continue;
        while (provider->lines[at & provider->mask] != NULL)
            at++;
        provider->lines[at & provider->mask] = &profile->lines[i];
        if (launch > 0 && (least < 0 || launch < least))
            least = launch;
    }
    provider->launch_ns = least > LAUNCH_NS ? least : 0;
    for (uint32_t i = 0; i < profile->factor_count; i++)
        if (profile->factors[i].threads == threads) {
            provider->factor = profile->factors[i].factor;
            provider->border = profile->factors[i].border;
        }
    return provider->lines != NULL;
}

static bool add_links(cost_book *book, book_provider *provider, const profile_provider *profile)
{
    const inlay_provider *table = provider->provider->table;

    provider->to = arena_array(&book->arena, (size_t)table->domain_count + 1, sizeof(profile_copy *));
    provider->from = arena_array(&book->arena, (size_t)table->domain_count + 1, sizeof(profile_copy *));
    for (uint32_t d = 0; provider->to != NULL && provider->from != NULL && d < table->domain_count; d++) {
        const inlay_domain_info *info = INLAY_AT(inlay_domain_info, table->domains, table->domain_stride, d);
        for (uint32_t i = 0; i < profile->link_count; i++) {
            if (strcmp(profile->links[i].domain, info->name) == 0) {
                provider->to[d] = &profile->links[i].to;
                provider->from[d] = &profile->links[i].from;
            }
        }
    }
    return provider->to != NULL && provider->from != NULL;
}

static bool profile_has_name(const cost_profile *profile, const char *name)
{
    for (uint32_t i = 0; i < profile->provider_count; i++)
        if (strcmp(profile->providers[i].name, name) == 0)
            return true;
    return false;
}

static bool add_provider(cost_book *book, book_provider *provider, uint32_t max_threads, const cost_log *log)
{
    const profile_provider *profile;

    provider->border = 1;
    profile = profile_find(&book->profile, provider->provider->identity);
    if (profile == NULL || profile->line_count == 0) {
        if (profile_has_name(&book->profile, provider->provider->name))
            cost_say(log, INLAY_LOG_INFO,
                     "costs: the machine profile was made for another build or other settings of "
                     "provider %s; run inlay tune --machine again",
                     provider->provider->name);
        return profile == NULL || add_links(book, provider, profile);
    }
    return add_lines(book, provider, profile, nearest_threads(profile, profile_threads(max_threads))) &&
           add_links(book, provider, profile);
}

inlay_status cost_book_open(const cost_book_request *request, cost_book **out_book, inlay_diag *diag)
{
    cost_log log = { request->log, request->log_ctx };
    cost_book *book = calloc(1, sizeof *book);
    inlay_status status = INLAY_OK;

    *out_book = NULL;
    if (book == NULL)
        return no_memory(diag, "for the costs of this machine");
    if (request->profile_folder != NULL)
        status = profile_load(request->profile_folder, request->profile_name, &log, &book->profile);
    else if (request->folder != NULL && request->profile_name == NULL)
        status = profile_load(request->folder, NULL, &log, &book->profile);
    if (status == INLAY_OK && book->profile.speed.struct_size > 0)
        core_speed_use(&book->profile.speed);
    if (status == INLAY_OK && request->folder != NULL)
        status = cost_store_load(request->folder, &log, &book->store);
    if (status == INLAY_OK && request->fresh_count > 0)
        status = cost_store_add(&book->store, request->fresh, request->fresh_count);
    if (status == INLAY_OK && (book->store.count > 0 || book->profile.provider_count > 0)) {
        book->providers = arena_array(&book->arena, (size_t)request->provider_count + 1, sizeof *book->providers);
        status = book->providers == NULL ? INLAY_OUT_OF_MEMORY : INLAY_OK;
        for (; status == INLAY_OK && book->provider_count < request->provider_count; book->provider_count++) {
            book_provider *provider = &book->providers[book->provider_count];
            provider->provider = &request->providers[book->provider_count];
            if (!add_provider(book, provider, request->max_threads, &log))
                status = INLAY_OUT_OF_MEMORY;
        }
        if (status == INLAY_OK) {
            *out_book = book;
            return INLAY_OK;
        }
    }
    cost_book_close(book);
    return status == INLAY_OK ? INLAY_OK : inlay_fail(diag, status, "no memory for the costs of this machine");
}

void cost_book_close(cost_book *book)
{
    if (book == NULL)
        return;
    profile_deinit(&book->profile);
    cost_store_deinit(&book->store);
    arena_deinit(&book->arena);
    free(book);
}

static const book_provider *find_book_provider(const cost_book *book, const partition_provider *provider)
{
    for (uint32_t i = 0; book != NULL && i < book->provider_count; i++)
        if (book->providers[i].provider->state == provider->state &&
            book->providers[i].provider->table == provider->table)
            return &book->providers[i];
    return NULL;
}

/* Returns whether the node is shape arithmetic with known inputs, which the planner computes. */
static bool is_folded(const cost_question *question, const inlay_node_info *node)
{
    static const char random[] = "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial";
    bool outputs = true, inputs = node->input_count > 0;

    for (uint32_t i = 0; i < node->output_count; i++)
        outputs = outputs && (node->outputs[i] == INLAY_NONE || question->values[node->outputs[i]].data != NULL);
    for (uint32_t i = 0; i < node->input_count; i++)
        inputs = inputs && (node->inputs[i] == INLAY_NONE || question->values[node->inputs[i]].data != NULL);
    for (uint32_t i = 0; i < node->output_count; i++)
        inputs = inputs && (node->outputs[i] == INLAY_NONE ||
                            (double)cost_value_bytes(&question->values[node->outputs[i]]) <= FOLD_MAX_BYTES);
    return outputs || (inputs && !is_among(node->op_type.data, random));
}

/* Returns whether the node is not executed at all: folded nodes, and views of host memory. */
static bool costs_nothing(const cost_question *question)
{
    const inlay_node_info *node = inlay_graph_node(question->graph, question->offer->nodes[0]);

    if (question->offer->node_count != 1 || strcmp(node->domain.data, "ai.onnx") != 0 ||
        partition_default_domain(question->provider) != INLAY_DOMAIN_HOST ||
        (question->provider->table->flags & INLAY_PROVIDER_ASYNC) != 0)
        return false;
    return is_among(node->op_type.data, "Reshape Flatten Squeeze Unsqueeze Identity") || is_folded(question, node);
}

/* Minimum relative error of prices by source, compared with other prices of the same source. Systematic errors of the
 * providers' models cancel in comparisons, so these errors are smaller than those against measured times. */
static double default_error(uint32_t source)
{
    static const double errors[] = { [COST_NONE] = 0,       [COST_GUESS] = 0.25,   [COST_MODEL] = 0.15,
                                     [COST_CLAIMED] = 0.15, [COST_PROFILE] = 0.15, [COST_MEASURED] = 0.02 };

    return source < sizeof errors / sizeof errors[0] ? errors[source] : 0;
}

void cost_convert_to_here(const struct inlay_provider *table, inlay_cost *cost)
{
    if ((table->flags & INLAY_PROVIDER_REFERENCE_CORE) == 0 || cost->confidence == INLAY_CONFIDENCE_MEASURED)
        return;
    if (cost->local_ns > 0 && isfinite(cost->local_ns))
        cost->ns = cost->local_ns;
    else if (cost_kind_of(cost) == COST_DENSE)
        cost->ns *= core_time_factor();
}

/* Queries the provider's own cost model. *why: the reason of COST_NONE. */
static uint32_t query_cost(const cost_question *question, inlay_cost *out, inlay_diag *why)
{
    const partition_offer *described = question->offer;
    inlay_offer offer = { .struct_size = sizeof offer,
                          .cookie = described->cookie,
                          .nodes = described->nodes,
                          .node_count = described->node_count,
                          .flags = described->flags,
                          .placements = described->placements,
                          .placement_count = described->placement_count,
                          .placement_stride = sizeof(inlay_placement),
                          .workspace_bytes = described->workspace_bytes,
                          .resident_bytes = described->resident_bytes,
                          .max_nodes = described->limits.nodes,
                          .max_inputs = described->limits.inputs,
                          .max_outputs = described->limits.outputs,
                          .max_resident_bytes = described->limits.resident_bytes };
    inlay_cost_request ask = { .struct_size = sizeof ask,
                               .graph = question->graph,
                               .offer = &offer,
                               .values = question->values,
                               .value_count = question->graph->value_count,
                               .value_stride = sizeof *question->values,
                               .max_threads =
                                   question->priced_threads > 0 ? question->priced_threads : question->max_threads };
    inlay_status status;

    *out = (inlay_cost){ .struct_size = sizeof *out };
    status = question->provider->table->cost(question->provider->state, &ask, out, why);
    if (status == INLAY_OK && !(out->ns >= 0 && isfinite(out->ns)))
        status = inlay_fail(why, INLAY_INVALID_ARGUMENT, "its price is %g ns", out->ns);
    if (status != INLAY_OK) {
        if (why->text[0] == '\0')
            (void)inlay_fail(why, status, "%s", inlay_status_text(status));
        *out = (inlay_cost){ .struct_size = sizeof *out, .ns = 1e12 };
        return COST_NONE;
    }
    out->enter_ns = out->enter_ns > 0 && isfinite(out->enter_ns) ? out->enter_ns : 0;
    out->leave_ns = out->leave_ns > 0 && isfinite(out->leave_ns) ? out->leave_ns : 0;
    cost_convert_to_here(question->provider->table, out);
    out->ns = fmax(out->ns, cost_roof_ns(question, out));
    if (out->confidence == INLAY_CONFIDENCE_MEASURED)
        return COST_CLAIMED;
    return out->confidence == INLAY_CONFIDENCE_GUESS ? COST_GUESS : COST_MODEL;
}

double cost_cold_bytes(const inlay_graph *graph, const inlay_node_info *node, const inlay_cost *cost)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < node->input_count; i++) {
        const inlay_value_info *value =
            node->inputs[i] == INLAY_NONE ? NULL : inlay_graph_value(graph, node->inputs[i]);
        if (value != NULL && (value->flags & INLAY_VALUE_CONSTANT) != 0)
            bytes += value->data_bytes;
    }
    return fmin((double)bytes, (double)cost->bytes_read);
}

uint64_t cost_constant_bytes(const struct graph *graph, const uint32_t *nodes, uint32_t node_count)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < node_count; k++) {
        const inlay_node_info *node = &graph->nodes[nodes[k]]->info;
        uint64_t bytes = 0, packed;

        for (uint32_t i = 0; i < node->input_count; i++)
            if (node->inputs[i] != INLAY_NONE)
                bytes += graph->values[node->inputs[i]].info.data_bytes;
        packed = kit_blocks_unpacked_bytes(node, bytes);
        sum += packed > bytes ? packed : bytes;
    }
    return sum;
}

uint64_t cost_weight_bytes(const inlay_graph *graph)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < graph->value_count; i++) {
        const inlay_value_info *value = inlay_graph_value(graph, i);
        if ((value->flags & INLAY_VALUE_CONSTANT) != 0)
            bytes += value->data_bytes;
    }
    return bytes;
}

uint64_t cost_near_bytes(void)
{
    return (uint64_t)core_memory()->near_size;
}

uint64_t cost_shared_bytes(void)
{
    return (uint64_t)core_memory()->shared_size;
}

/* The fraction of cyclically read data that a cache misses. With LRU replacement, data slightly larger than the cache
 * misses completely. */
static double share_beyond(double bytes, double cache)
{
    return fmin(fmax(bytes * 2 / cache - 1, 0), 1);
}

double cost_cold_share(uint64_t weight_bytes)
{
    const double far = share_beyond((double)weight_bytes, (double)cost_shared_bytes());

    return share_beyond((double)weight_bytes, (double)cost_near_bytes()) * (SHARED_SHARE + (1 - SHARED_SHARE) * far);
}

uint32_t cost_weights_in(uint64_t weight_bytes)
{
    double share = cost_cold_share(weight_bytes);

    return share < SHARED_SHARE / 2 ? COST_NEAR : share < (1 + SHARED_SHARE) / 2 ? COST_SHARED : COST_FAR;
}

/* Does the provider compute on the CPU, as far as the host can tell? One that has no memory of its own, and no fences,
 * may still pass its work to a device; then it has measured its prices, or has none. */
static bool has_roof(const struct inlay_provider *table, const inlay_cost *cost)
{
    if ((table->flags & INLAY_PROVIDER_REFERENCE_CORE) != 0)
        return true;
    return table->domain_count == 0 && (table->flags & INLAY_PROVIDER_ASYNC) == 0 &&
           cost->confidence != INLAY_CONFIDENCE_MEASURED;
}

double cost_roof_ns(const cost_question *question, const inlay_cost *cost)
{
    const partition_offer *offer = question->offer;
    const inlay_speed *speed = core_speed();
    const double threads = question->priced_threads > 0 ? question->priced_threads : question->max_threads;
    const double far = share_beyond((double)question->weight_bytes, core_memory()->shared_size);
    double bytes = 0, flops = cost->flops;

    if (!has_roof(question->provider->table, cost))
        return 0;
    for (uint32_t k = 0; k < offer->node_count; k++) {
        const inlay_node_info *node = inlay_graph_node(question->graph, offer->nodes[k]);
        const bool multiplies = is_among(node->op_type.data, "Gemm MatMul") && node->output_count > 0 &&
                                question->values[node->outputs[0]].dtype == INLAY_FLOAT;

        bytes += cost_cold_bytes(question->graph, node, cost);
        flops = multiplies ? flops : 0; /* other operators have kernels with fewer operations */
    }
    bytes = fmin(bytes, (double)cost->bytes_read);
    return fmax(bytes * far / fmin(threads * speed->memory_bytes, core_memory()->all_bytes),
                flops / fmax(core_flops(), speed->tile_bfloat16) / threads);
}

/* Returns the line of the class, or of the nearest more general class. */
static const profile_line *line_for(const book_provider *provider, cost_class class, const inlay_cost *model)
{
    uint32_t kind = cost_kind_of(model);
    cost_class tries[5] = { class,
                            { class.op, COST_ANY, class.dtype },
                            { class.op, COST_ANY, INLAY_UNDEFINED },
                            { "", kind, class.dtype },
                            { "", kind, INLAY_UNDEFINED } };
    const profile_line *line = NULL;

    for (int i = 0; line == NULL && i < 5; i++)
        line = find_line(provider, &tries[i]);
    return line;
}

/* Scales the provider's estimate by the machine profile. *out_error: see cost_of_offer. */
static bool scale_by_profile(const book_provider *provider, const cost_question *question, inlay_cost *cost,
                             double *out_error)
{
    const inlay_node_info *node = inlay_graph_node(question->graph, question->offer->nodes[0]);
    const profile_line *line;
    double x[FIT_TERMS];

    if (provider->lines == NULL)
        return false;
    if (question->offer->node_count > 1) {
        if (provider->factor > 0)
            cost->ns *= provider->factor;
        return provider->factor > 0;
    }
    line = line_for(provider, cost_class_of(question->graph, node, question->values), cost);
    if (line == NULL)
        return false;
    fit_terms(cost->flops, (double)cost->bytes_read + (double)cost->bytes_written, cost->ns,
              cost_cold_bytes(question->graph, node, cost) * cost_cold_share(question->weight_bytes), x);
    cost->ns = fit_at(&line->fit, x);
    *out_error = line->fit.error - 1;
    return true;
}

uint32_t cost_of_offer(const cost_book *book, const cost_question *question, inlay_cost *out, double *out_error)
{
    const book_provider *provider = find_book_provider(book, question->provider);
    inlay_diag why = INLAY_DIAG_INIT;
    uint32_t source = query_cost(question, out, &why);
    const cost_record *record;

    if (source != COST_NONE && !question->runs && costs_nothing(question)) {
        out->ns = out->enter_ns = out->leave_ns = 0;
        *out_error = 0;
        return source;
    }
    *out_error = default_error(source);
    if (provider == NULL)
        return source;
    out->enter_ns *= provider->border;
    out->leave_ns *= provider->border;
    record = find_measurement(book, cost_key_of(question));
    if (record != NULL) {
        out->ns = record->ns;
        source = COST_MEASURED;
        *out_error = fmax(default_error(source), record->spread);
    } else if (source != COST_NONE && scale_by_profile(provider, question, out, out_error)) {
        source = COST_PROFILE;
        *out_error = fmax(*out_error, default_error(source));
    }
    /* The launch is part of the region's price, see cost_launch_ns(). */
    out->ns = out->ns > provider->launch_ns ? out->ns - provider->launch_ns : 0;
    return source;
}

void cost_missing(const cost_question *question, inlay_diag *why)
{
    inlay_cost cost;

    (void)query_cost(question, &cost, why);
}

void cost_price_offer(const cost_book *book, const cost_question *question, partition_offer *offer)
{
    cost_question at = *question;
    const uint32_t threads = profile_threads(question->max_threads);
    inlay_cost few, many, run;
    double error;

    at.priced_threads = COST_FEW_THREADS;
    offer->cost_source = cost_of_offer(book, &at, &offer->cost, &offer->cost_error);
    offer->threads_factor = offer->border_factor = 1;
    few = offer->cost;
    at.priced_threads = COST_THREADS;
    if (offer->cost_source >= COST_MEASURED || cost_of_offer(book, &at, &many, &error) != offer->cost_source)
        return;
    offer->cost.ns = (few.ns + many.ns) / 2;
    offer->cost.enter_ns = (few.enter_ns + many.enter_ns) / 2;
    offer->cost.leave_ns = (few.leave_ns + many.leave_ns) / 2;
    run = threads == COST_FEW_THREADS ? few : many;
    at.priced_threads = threads;
    if (threads != COST_FEW_THREADS && threads != COST_THREADS &&
        cost_of_offer(book, &at, &run, &error) != offer->cost_source)
        return;
    if (offer->cost.ns > 0)
        offer->threads_factor = run.ns / offer->cost.ns;
    if (offer->cost.enter_ns + offer->cost.leave_ns > 0)
        offer->border_factor = (run.enter_ns + run.leave_ns) / (offer->cost.enter_ns + offer->cost.leave_ns);
}

static bool offer_produces(const inlay_graph *graph, const partition_offer *offer, uint32_t value)
{
    for (uint32_t k = 0; k < offer->node_count; k++)
        if (inlay_graph_value(graph, value)->producer == offer->nodes[k])
            return true;
    return false;
}

double cost_border_ns(const inlay_graph *graph, const partition_offer *offer, const inlay_value_state *values,
                      uint32_t value, bool enters)
{
    double all = 0, ns = enters ? offer->cost.enter_ns : offer->cost.leave_ns;

    INLAY_CHECK(value < graph->value_count);
    if (ns <= 0)
        return 0;
    for (uint32_t k = 0; k < offer->node_count; k++) {
        const inlay_node_info *node = inlay_graph_node(graph, offer->nodes[k]);
        const uint32_t *list = enters ? node->inputs : node->outputs,
                       count = enters ? node->input_count : node->output_count;

        for (uint32_t i = 0; i < count; i++)
            if (list[i] != INLAY_NONE && (inlay_graph_value(graph, list[i])->flags & INLAY_VALUE_CONSTANT) == 0 &&
                (!enters || !offer_produces(graph, offer, list[i])))
                all += (double)cost_value_bytes(&values[list[i]]);
    }
    return all > 0 ? ns * (double)cost_value_bytes(&values[value]) / all : 0;
}

double cost_launch_ns(const cost_book *book, const partition_provider *provider)
{
    const book_provider *known_provider = find_book_provider(book, provider);

    return known_provider != NULL ? known_provider->launch_ns : 0;
}

/* Returns whether the host and the device share memory, so that no copy is needed. */
static bool is_unified(const partition_provider *provider, uint32_t k)
{
    const uint32_t both = INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT;

    return (INLAY_AT(inlay_domain_info, provider->table->domains, provider->table->domain_stride, k)->flags & both) ==
           both;
}

/* The cost of a copy between a domain of a provider and the host, in one direction. */
static double one_way_ns(const cost_book *book, const partition_provider *providers, uint32_t provider_count,
                         uint32_t domain, bool to_device, uint64_t bytes)
{
    for (uint32_t i = 0; i < provider_count; i++) {
        const partition_provider *provider = &providers[i];
        const book_provider *known_provider;
        const profile_copy *link = NULL;

        if (domain < provider->first_domain || domain - provider->first_domain >= provider->table->domain_count)
            continue;
        known_provider = find_book_provider(book, provider);
        if (is_unified(provider, domain - provider->first_domain))
            return 0;
        if (known_provider != NULL && known_provider->to != NULL)
            link = (to_device ? known_provider->to : known_provider->from)[domain - provider->first_domain];
        if (link != NULL)
            return link->latency_ns + (double)bytes * link->ns_per_byte;
    }
    return COPY_LATENCY_NS + (double)bytes / COPY_BYTES_PER_NS;
}

static const partition_provider *owner_of(const partition_provider *providers, uint32_t provider_count, uint32_t domain)
{
    for (uint32_t i = 0; i < provider_count; i++)
        if (domain >= providers[i].first_domain &&
            domain - providers[i].first_domain < providers[i].table->domain_count)
            return &providers[i];
    return NULL;
}

uint32_t cost_link(const partition_provider *providers, uint32_t provider_count, uint32_t from, uint32_t to)
{
    const partition_provider *writer = owner_of(providers, provider_count, from),
                             *reader = owner_of(providers, provider_count, to);

    if (writer == NULL || reader == NULL || writer == reader)
        return LINK_HOST;
    return link_between(&(link_end){ writer->table, writer->state, writer->first_domain, from },
                        &(link_end){ reader->table, reader->state, reader->first_domain, to });
}

double cost_copy_ns(const cost_book *book, const partition_provider *providers, uint32_t provider_count, uint32_t from,
                    uint32_t to, uint64_t bytes)
{
    if (from == to)
        return 0;
    if (from == INLAY_DOMAIN_HOST || to == INLAY_DOMAIN_HOST)
        return one_way_ns(book, providers, provider_count, from == INLAY_DOMAIN_HOST ? to : from,
                          from == INLAY_DOMAIN_HOST, bytes);
    if (owner_of(providers, provider_count, from) == owner_of(providers, provider_count, to))
        return one_way_ns(book, providers, provider_count, to, true, bytes);
    switch (cost_link(providers, provider_count, from, to)) {
    case LINK_IMPORT:
        return 0;
    case LINK_COPY: /* the provider of `from` writes into the memory of `to` */
        return one_way_ns(book, providers, provider_count, from, false, bytes);
    default:
        break;
    }
    return one_way_ns(book, providers, provider_count, from, false, bytes) +
           one_way_ns(book, providers, provider_count, to, true, bytes);
}

uint64_t cost_value_bytes(const inlay_value_state *state)
{
    uint64_t bits = inlay_dtype_bits(state->dtype);

    for (uint32_t d = 0; state->rank != INLAY_RANK_UNKNOWN && d < state->rank; d++) {
        uint64_t size = state->dims[d] < 0 ? 1 : (uint64_t)state->dims[d];
        if (__builtin_mul_overflow(bits, size, &bits))
            return UINT64_MAX / 8;
    }
    return bits / 8 + (bits % 8 != 0);
}
