/* remote/offers.c - assess, cost and cost_region of an isolated provider, and the cookies of its offers. */
#include "base/memory.h"
#include "inlay/check.h"
#include "remote/proxy.h"
#include <stdlib.h>
#include <string.h>

/* Where the records of assess go. */
struct receiver {
    isolate_proxy *self;
    proxy_record *record;
    const inlay_assess_sink *sink; /* NULL: assess is repeated, and only the cookies are new */
    const char *outbox;
    char *copy; /* [ISOLATE_OUTBOX_BYTES] */
    inlay_status status;
};

/* If an earlier assess had the offer, too, takes over its cookie. Returns its index; INLAY_NONE: it is new. */
static uint32_t renew_offer(const struct receiver *to, const inlay_offer *offer)
{
    for (uint32_t i = 0; i < to->record->offer_count; i++) {
        proxy_offer *known = &to->record->offers[i];

        if (!known->known && known->node_count == offer->node_count &&
            memcmp(known->nodes, offer->nodes, offer->node_count * sizeof *known->nodes) == 0) {
            known->cookie = offer->cookie;
            known->known = true;
            return i;
        }
    }
    return INLAY_NONE;
}

static inlay_status take_offer(const struct receiver *to, inlay_offer *offer)
{
    proxy_record *record = to->record;
    uint32_t index = renew_offer(to, offer);

    if (to->sink == NULL)
        return INLAY_OK;
    if (index == INLAY_NONE) {
        proxy_offer *added;

        if (!LIST_GROW(record->offers, record->offer_count))
            return INLAY_OUT_OF_MEMORY;
        index = record->offer_count;
        added = &record->offers[index];
        *added = (proxy_offer){ .cookie = offer->cookie,
                                .node_count = offer->node_count,
                                .known = true,
                                .nodes = malloc((size_t)offer->node_count * sizeof *added->nodes + 1) };
        if (added->nodes == NULL)
            return INLAY_OUT_OF_MEMORY;
        memcpy(added->nodes, offer->nodes, offer->node_count * sizeof *added->nodes);
        record->offer_count++;
    }
    offer->cookie = record->first_cookie + index;
    return to->sink->offer(to->sink->ctx, offer);
}

static inlay_status read_offer(struct receiver *to, isolate_reader *reader)
{
    const void *bytes = isolate_get(reader, sizeof(inlay_offer));
    const void *node_bytes, *placement_bytes;
    inlay_placement *placements;
    inlay_status status;
    inlay_offer offer;
    uint32_t *nodes;

    if (bytes == NULL)
        return INLAY_OK;
    memcpy(&offer, bytes, sizeof offer);
    offer.struct_size = sizeof offer;
    node_bytes = isolate_get(reader, (uint64_t)offer.node_count * sizeof *nodes);
    placement_bytes = isolate_get(reader, (uint64_t)offer.placement_count * sizeof *placements);
    if (reader->failed)
        return INLAY_OK;
    nodes = malloc((size_t)offer.node_count * sizeof *nodes + 1); /* the records are not aligned */
    placements = malloc((size_t)offer.placement_count * sizeof *placements + 1);
    if (nodes == NULL || placements == NULL) {
        status = INLAY_OUT_OF_MEMORY;
    } else {
        memcpy(nodes, node_bytes, (size_t)offer.node_count * sizeof *nodes);
        memcpy(placements, placement_bytes, (size_t)offer.placement_count * sizeof *placements);
        offer.nodes = nodes;
        offer.placements = placements;
        offer.placement_stride = sizeof *placements;
        status = take_offer(to, &offer);
    }
    free(nodes);
    free(placements);
    return status;
}

static inlay_status read_refusal(const struct receiver *to, isolate_reader *reader)
{
    inlay_refusal refusal = { .struct_size = sizeof refusal };

    refusal.node = (uint32_t)isolate_get_u64(reader);
    refusal.code = (uint32_t)isolate_get_u64(reader);
    refusal.text = isolate_get_text(reader);
    refusal.accepted_if = isolate_get_text(reader);
    if (refusal.text == NULL)
        refusal.text = "";
    return reader->failed || to->sink == NULL ? INLAY_OK : to->sink->refuse(to->sink->ctx, &refusal);
}

/* Reads all records of the outbox. */
static inlay_status receive(void *ctx, isolate_channel *channel, isolate_callback *callback)
{
    struct receiver *to = ctx;
    const uint32_t bytes = __atomic_load_n(&channel->outbox_bytes, __ATOMIC_RELAXED);
    isolate_reader reader = { to->copy, to->copy + (bytes < ISOLATE_OUTBOX_BYTES ? bytes : ISOLATE_OUTBOX_BYTES),
                              false };

    if (callback != NULL && callback->kind != ISOLATE_FLUSH)
        return proxy_log(to->self, callback);
    memcpy(to->copy, to->outbox, (size_t)(reader.end - reader.at));
    channel->outbox_bytes = 0;
    while (to->status == INLAY_OK && !reader.failed && reader.at < reader.end)
        to->status = isolate_get_u64(&reader) == 1 ? read_offer(to, &reader) : read_refusal(to, &reader);
    return to->status;
}

/* Calls assess of the process with the record's request. */
static inlay_status ask(isolate_proxy *self, proxy_call *call, proxy_record *record, const inlay_assess_sink *sink,
                        inlay_diag *diag)
{
    struct receiver to = { .self = self, .record = record, .sink = sink, .copy = malloc(ISOLATE_OUTBOX_BYTES) };
    isolate_wait wait = { .callback = receive, .ctx = &to };
    inlay_status status = INLAY_OK;

    if (to.copy == NULL)
        return no_memory(diag, "to assess a graph");
    INLAY_TRY(isolate_channel_outbox(&self->process, call->channel, &to.outbox, diag));
    for (uint32_t i = 0; i < record->offer_count; i++)
        record->offers[i].known = false;
    record->generation = 0; /* until it has succeeded */
    INLAY_TRY(proxy_make(self, call, ISOLATE_ASSESS, record->request, &wait, diag));
    status = receive(&to, call->channel, NULL);
    record->generation = call->generation;
done:
    call->channel->outbox = NULL;
    free(to.copy);
    return status;
}

static bool uses_strings(const inlay_graph *graph, const uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (values[i] != INLAY_NONE && inlay_graph_value(graph, values[i])->dtype == INLAY_STRING)
            return true;
    return false;
}

/* Nodes with strings, whose elements are pointers into the host's memory, are not candidates for the process. */
static inlay_status copy_candidates(const inlay_assess_request *request, uint8_t *candidates)
{
    const inlay_graph *graph = request->graph;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < graph->node_count && status == INLAY_OK; i++) {
        const inlay_node_info *node = inlay_graph_node(graph, i);
        const inlay_refusal refusal = { .struct_size = sizeof refusal,
                                        .node = i,
                                        .code = INLAY_REFUSE_OPERATOR,
                                        .text = "the provider is isolated (option isolate) and cannot use strings of "
                                                "another process" };

        candidates[i] = request->candidates[i];
        if (candidates[i] == 0 || (!uses_strings(graph, node->inputs, node->input_count) &&
                                   !uses_strings(graph, node->outputs, node->output_count)))
            continue;
        candidates[i] = 0;
        status = request->sink->refuse(request->sink->ctx, &refusal);
    }
    return status;
}

static void free_record(isolate_proxy *self, proxy_record *record)
{
    proxy_release_graph(self, record->graph);
    (void)pthread_mutex_lock(&self->process.lock);
    isolate_arena_deinit(&record->arena);
    (void)pthread_mutex_unlock(&self->process.lock);
    for (uint32_t i = 0; i < record->offer_count; i++)
        free(record->offers[i].nodes);
    free(record->offers);
    free(record->owners);
    free(record);
}

/* Frees the records whose offers neither the host nor a region uses. renew_lock is held. */
static void free_unused_records(isolate_proxy *self)
{
    for (proxy_record **link = &self->records; *link != NULL;) {
        proxy_record *record = *link, **of_graph = &record->graph->records;

        if (record->owner_count > 0 || record->uses > 0) {
            link = &record->next;
            continue;
        }
        (void)pthread_mutex_lock(&self->process.lock);
        *link = record->next;
        while (*of_graph != record)
            of_graph = &(*of_graph)->next_of_graph;
        *of_graph = record->next_of_graph;
        (void)pthread_mutex_unlock(&self->process.lock);
        free_record(self, record);
    }
}

void proxy_forget(void *state, const inlay_graph *graph)
{
    isolate_proxy *self = state;

    (void)pthread_mutex_lock(&self->renew_lock);
    for (proxy_record *record = self->records; record != NULL; record = record->next)
        for (uint32_t i = record->owner_count; i-- > 0;)
            if (record->owners[i] == graph)
                record->owners[i] = record->owners[--record->owner_count];
    free_unused_records(self);
    (void)pthread_mutex_unlock(&self->renew_lock);
}

static bool add_owner(proxy_record *record, const inlay_graph *graph)
{
    for (uint32_t i = 0; i < record->owner_count; i++)
        if (record->owners[i] == graph)
            return true;
    if (!LIST_GROW(record->owners, record->owner_count))
        return false;
    record->owners[record->owner_count++] = graph;
    return true;
}

void proxy_free_records(isolate_proxy *self)
{
    while (self->records != NULL) {
        proxy_record *record = self->records;

        self->records = record->next;
        free_record(self, record);
    }
}

/* The process has ended in assess: the nodes get a refusal each, and other providers run them. */
static inlay_status refuse_all(const inlay_assess_request *request, const inlay_diag *why)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < request->graph->node_count && status == INLAY_OK; i++) {
        const inlay_refusal refusal = {
            .struct_size = sizeof refusal, .node = i, .code = INLAY_REFUSE_DEVICE, .text = why->text
        };

        if (request->candidates[i] != 0)
            status = request->sink->refuse(request->sink->ctx, &refusal);
    }
    return status;
}

/* Creates the record of an assess. The graph stays entered until proxy_leave_graph(). */
static inlay_status create_record(isolate_proxy *self, const inlay_assess_request *request, proxy_record **out,
                                  inlay_diag *diag)
{
    proxy_record *record = calloc(1, sizeof *record);
    inlay_assess_request *copy;
    uint8_t *candidates;
    inlay_status status;

    if (record == NULL)
        return no_memory(diag, "to assess a graph");
    status = proxy_enter_graph(self, request->graph, &record->graph, diag);
    if (status != INLAY_OK) {
        free(record);
        return status;
    }
    (void)pthread_mutex_lock(&self->process.lock);
    record->arena.heap = &self->process.arguments;
    copy = isolate_arena_alloc(&record->arena, sizeof *copy);
    candidates = isolate_arena_alloc(&record->arena, request->graph->node_count);
    record->first_cookie = self->next_cookie;
    self->next_cookie += UINT64_C(1) << 32; /* more than a graph has offers */
    (void)pthread_mutex_unlock(&self->process.lock);
    if (record->arena.failed)
        status = no_memory(diag, "to assess a graph");
    if (status == INLAY_OK)
        status = copy_candidates(request, candidates);
    if (status == INLAY_OK) {
        *copy = (inlay_assess_request){ .struct_size = sizeof *copy,
                                        .graph = record->graph->graph,
                                        .candidates = candidates };
        record->request = copy;
        *out = record;
        return INLAY_OK;
    }
    proxy_leave_graph(self, record->graph, true);
    free_record(self, record);
    return status;
}

/* An earlier record of the same graph and candidates, or NULL. renew_lock is held. */
static proxy_record *find_equal(isolate_proxy *self, const proxy_record *record)
{
    const uint32_t nodes = record->graph->graph->node_count;
    proxy_record *other;

    (void)pthread_mutex_lock(&self->process.lock);
    other = record->graph->records;
    while (other != NULL && memcmp(other->request->candidates, record->request->candidates, nodes) != 0)
        other = other->next_of_graph;
    (void)pthread_mutex_unlock(&self->process.lock);
    return other;
}

static void add_record(isolate_proxy *self, proxy_record *record)
{
    (void)pthread_mutex_lock(&self->process.lock);
    record->next = self->records;
    self->records = record;
    record->next_of_graph = record->graph->records;
    record->graph->records = record;
    (void)pthread_mutex_unlock(&self->process.lock);
}

/* A graph that is assessed again shares the record. */
inlay_status proxy_assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    isolate_proxy *self = state;
    proxy_record *record = NULL, *earlier;
    proxy_call call;
    inlay_status status = create_record(self, request, &record, diag);

    if (status != INLAY_OK)
        return status;
    status = proxy_begin(self, &call, diag);
    (void)pthread_mutex_lock(&self->renew_lock);
    earlier = find_equal(self, record);
    if (status == INLAY_OK) {
        status = ask(self, &call, earlier != NULL ? earlier : record, request->sink, diag);
        proxy_end(self, &call);
    }
    proxy_leave_graph(self, record->graph, true);
    if (status == INLAY_OK && (earlier != NULL || record->offer_count > 0) &&
        !add_owner(earlier != NULL ? earlier : record, request->graph))
        status = no_memory(diag, "to assess a graph");
    if (status == INLAY_OK && earlier == NULL && record->offer_count > 0)
        add_record(self, record);
    else
        free_record(self, record);
    (void)pthread_mutex_unlock(&self->renew_lock);
    return status == INLAY_DEVICE_LOST ? refuse_all(request, diag) : status;
}

static proxy_record *find_record(isolate_proxy *self, uint64_t cookie)
{
    proxy_record *record;

    (void)pthread_mutex_lock(&self->process.lock);
    record = self->records;
    while (record != NULL && cookie - record->first_cookie >= record->offer_count)
        record = record->next;
    (void)pthread_mutex_unlock(&self->process.lock);
    return record;
}

void proxy_hold_offers(isolate_proxy *self, const uint64_t *cookies, uint32_t count)
{
    (void)pthread_mutex_lock(&self->renew_lock);
    for (uint32_t i = 0; i < count; i++) {
        proxy_record *record = find_record(self, cookies[i]);

        if (record != NULL)
            record->uses++;
    }
    (void)pthread_mutex_unlock(&self->renew_lock);
}

void proxy_drop_offers(isolate_proxy *self, const uint64_t *cookies, uint32_t count)
{
    (void)pthread_mutex_lock(&self->renew_lock);
    for (uint32_t i = 0; i < count; i++) {
        proxy_record *record = find_record(self, cookies[i]);

        INLAY_CHECK(record == NULL || record->uses > 0);
        if (record != NULL)
            record->uses--;
    }
    free_unused_records(self);
    (void)pthread_mutex_unlock(&self->renew_lock);
}

inlay_status proxy_cookies(isolate_proxy *self, proxy_call *call, const uint64_t *cookies, uint32_t count,
                           uint64_t *out, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    (void)pthread_mutex_lock(&self->renew_lock);
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        proxy_record *record = find_record(self, cookies[i]);

        if (record == NULL) /* its assess failed after it had reported the offer */
            status = inlay_fail(diag, INLAY_DEVICE_LOST, "isolated %s did not finish its offers", self->info->name);
        else if (record->generation != call->generation)
            status = ask(self, call, record, NULL, diag);
        if (status == INLAY_OK && !record->offers[cookies[i] - record->first_cookie].known)
            status = inlay_fail(diag, INLAY_DEVICE_LOST, "isolated %s no longer offers nodes that it offered before",
                                self->info->name);
        if (status == INLAY_OK)
            out[i] = record->offers[cookies[i] - record->first_cookie].cookie;
    }
    (void)pthread_mutex_unlock(&self->renew_lock);
    return status;
}

/* The arguments of a call that are freed when it has returned. */
static isolate_arena begin_arguments(isolate_proxy *self)
{
    (void)pthread_mutex_lock(&self->process.lock);
    return (isolate_arena){ .heap = &self->process.arguments };
}

/* Lets the provider of an isolated process price offers of a graph: a call of KIND (ISOLATE_COST or
 * ISOLATE_COST_REGION) with the packed REQUEST. Frees ARENA and leaves the graph. COOKIES: [count], of the offers in
 * this process; OUT_COOKIES: [count], the place in REQUEST that gets the cookies of the same offers in the isolated
 * process. */
static inlay_status price(isolate_proxy *self, isolate_graph *graph, isolate_arena *arena, uint32_t kind,
                          const void *request, const uint64_t *cookies, uint32_t count, uint64_t *out_cookies,
                          inlay_cost *out_cost, inlay_diag *diag)
{
    proxy_call call;
    inlay_status status = arena->failed ? no_memory(diag, "to price an offer") : proxy_begin(self, &call, diag);

    if (status == INLAY_OK) {
        status = proxy_cookies(self, &call, cookies, count, out_cookies, diag);
        if (status == INLAY_OK)
            status = proxy_make(self, &call, kind, request, NULL, diag);
        if (status == INLAY_OK) {
            const uint64_t size = out_cost->struct_size;

            *out_cost = call.channel->result.cost;
            out_cost->struct_size = size;
        }
        proxy_end(self, &call);
    }
    proxy_free_arguments(self, arena);
    proxy_leave_graph(self, graph, false);
    return status;
}

inlay_status proxy_cost(void *state, const inlay_cost_request *request, inlay_cost *out_cost, inlay_diag *diag)
{
    isolate_proxy *self = state;
    isolate_graph *graph = NULL;
    isolate_arena arena;
    inlay_cost_request *copy;
    inlay_offer *offer;
    inlay_status status = proxy_enter_graph(self, request->graph, &graph, diag);

    if (status != INLAY_OK)
        return status;
    arena = begin_arguments(self);
    copy = isolate_arena_copy(&arena, request, sizeof *request);
    offer = isolate_arena_copy(&arena, request->offer, sizeof *offer);
    if (copy != NULL && offer != NULL) {
        copy->graph = graph->graph;
        copy->offer = offer;
        copy->values =
            isolate_pack_states(&arena, graph, NULL, request->values, request->value_count, request->value_stride);
        copy->value_stride = sizeof(inlay_value_state);
        offer->nodes = isolate_arena_copy(&arena, offer->nodes, offer->node_count * sizeof *offer->nodes);
        offer->placements = NULL; /* the provider knows what it has offered */
        offer->placement_count = 0;
    }
    (void)pthread_mutex_unlock(&self->process.lock);
    return price(self, graph, &arena, ISOLATE_COST, copy, &request->offer->cookie, 1,
                 offer != NULL ? &offer->cookie : NULL, out_cost, diag);
}

inlay_status proxy_cost_region(void *state, const inlay_region_cost_request *request, inlay_cost *out_cost,
                               inlay_diag *diag)
{
    isolate_proxy *self = state;
    isolate_graph *graph = NULL;
    isolate_arena arena;
    inlay_region_cost_request *copy;
    uint64_t *cookies;
    inlay_status status = proxy_enter_graph(self, request->graph, &graph, diag);

    if (status != INLAY_OK)
        return status;
    arena = begin_arguments(self);
    copy = isolate_arena_copy(&arena, request, sizeof *request);
    cookies = isolate_arena_alloc(&arena, request->offer_count * sizeof *cookies);
    if (copy != NULL) {
        copy->graph = graph->graph;
        copy->nodes = isolate_arena_copy(&arena, request->nodes, request->node_count * sizeof *request->nodes);
        copy->cookies = cookies;
        copy->inputs = isolate_arena_copy(&arena, request->inputs, request->input_count * sizeof *request->inputs);
        copy->outputs = isolate_arena_copy(&arena, request->outputs, request->output_count * sizeof *request->outputs);
        copy->values =
            isolate_pack_states(&arena, graph, NULL, request->values, request->value_count, request->value_stride);
        copy->value_stride = sizeof(inlay_value_state);
    }
    (void)pthread_mutex_unlock(&self->process.lock);
    return price(self, graph, &arena, ISOLATE_COST_REGION, copy, request->cookies, request->offer_count, cookies,
                 out_cost, diag);
}
