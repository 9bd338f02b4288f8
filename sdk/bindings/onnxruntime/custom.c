/* Registration of a session's custom operators with inlay. */
#include "custom.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Registered operators.
 *
 * A registration lasts as long as the process. So an operator is registered with its signature only, and only once;
 * each session has its own kernels for the operator. */

typedef struct known_op {
    char *domain, *name, *signature;
    uint32_t since;
    struct known_op *next;
} known_op;

enum { MOST_BATCHES = 64, MOST_OF_BATCH = 512 };
/* `registering` protects the known operators and the batches; it is held while the library registers a plugin.
 * `listing` protects the sessions. The provider takes only the latter, because the library opens providers with a lock
 * that registering takes, too. */
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER, listing = PTHREAD_MUTEX_INITIALIZER;
static known_op *known;
static ort_custom *sessions;
static uint64_t next_id = 1;

struct batch {
    inlay_plugin plugin;
    inlay_operator ops[MOST_OF_BATCH];
};
static struct batch *batches[MOST_BATCHES];
static uint32_t batch_count;

static inlay_status open_batch(uint32_t index, const inlay_plugin **out_plugin)
{
    INLAY_CHECK(index < batch_count + 1 && batches[index] != NULL);
    *out_plugin = &batches[index]->plugin;
    return INLAY_OK;
}

/* The entry point of a plugin has no parameter for user data, so each batch of operators needs a separate function. */
#define OPEN(n)                                                                                                        \
    static inlay_status open_##n(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)            \
    {                                                                                                                  \
        (void)host, (void)diag;                                                                                        \
        return open_batch(n, out_plugin);                                                                              \
    }
#define TEN(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define ALL(X)                                                                                                         \
    X(0)                                                                                                               \
    X(1)                                                                                                               \
    X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4) TEN(X, 5) X(60) X(61) X(62) X(63)
ALL(OPEN)
#define NAME(n) open_##n,
static const inlay_plugin_open_fn entries[MOST_BATCHES] = { ALL(NAME) };

/* The operators of the session that this thread is creating; NULL: none. */
static _Thread_local const ort_custom *being_created;

const ort_custom *ort_custom_creating(const ort_custom *custom)
{
    const ort_custom *previous = being_created;

    being_created = custom;
    return previous;
}

/* The operator is registered for all sessions, so that its function depends on the one that is being created. */
static inlay_status infer(void *ctx, inlay_infer *infer_, inlay_diag *diag)
{
    const OrtCustomOp *op = being_created != NULL ? ort_custom_match(being_created, infer_->node) : NULL;

    (void)ctx;
    return op != NULL ? ort_custom_infer((void *)(uintptr_t)op, infer_, diag) : INLAY_OK;
}

/* Sets *out to the operator if it is already registered. Fails if an operator with the same name but another signature
 * is registered: the model would be ambiguous. */
static OrtStatus *find_known(const char *domain, const char *name, uint32_t since, const char *signature,
                             const known_op **out)
{
    *out = known;
    while (*out != NULL &&
           ((*out)->since != since || strcmp((*out)->name, name) != 0 || strcmp((*out)->domain, domain) != 0))
        *out = (*out)->next;
    if (*out != NULL && strcmp((*out)->signature, signature) != 0)
        return ort_fail(ORT_INVALID_GRAPH,
                        "custom operator %s:%s was used before in this process with other inputs or "
                        "outputs (%s)",
                        domain, name, (*out)->signature);
    return NULL;
}

static OrtStatus *add_known(struct batch *batch, const char *domain, const char *name, uint32_t since,
                            const char *signature)
{
    known_op *op;

    if (batch->plugin.operator_count == MOST_OF_BATCH)
        return ort_fail(ORT_FAIL, "more than %d new custom operators in one session", MOST_OF_BATCH);
    op = calloc(1, sizeof *op);
    if (op == NULL)
        return ort_no_memory();
    op->domain = strdup(domain);
    op->name = strdup(name);
    op->signature = strdup(signature);
    op->since = since;
    if (op->domain == NULL || op->name == NULL || op->signature == NULL) {
        free(op->domain);
        free(op->name);
        free(op->signature);
        free(op);
        return ort_no_memory();
    }
    batch->ops[batch->plugin.operator_count++] = (inlay_operator){
        .struct_size = sizeof(inlay_operator),
        .domain = op->domain,
        .op_type = op->name,
        .signature = op->signature,
        .since_version = since,
        .flags = INLAY_OPERATOR_RANDOM,
        .infer = infer,
    };
    op->next = known;
    known = op;
    return NULL;
}

/* Removes the operators of a batch that was not registered. */
static void remove_batch(struct batch *batch)
{
    for (uint32_t i = 0; i < batch->plugin.operator_count; i++) {
        known_op *op = known;
        INLAY_CHECK(op != NULL);

        known = op->next;
        free(op->domain);
        free(op->name);
        free(op->signature);
        free(op);
    }
    free(batch);
}

/* Requires `registering`. */
static OrtStatus *register_new(const ort_custom *custom)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct batch *batch = calloc(1, sizeof *batch);
    OrtStatus *failed = NULL;

    if (batch == NULL)
        return ort_no_memory();
    batch->plugin = (inlay_plugin){ .struct_size = sizeof batch->plugin,
                                    .abi_major = INLAY_ABI_MAJOR,
                                    .abi_minor = INLAY_ABI_MINOR,
                                    .name = "custom operators of the program",
                                    .version = "1",
                                    .build_id = "1",
                                    .operators = batch->ops,
                                    .operator_stride = sizeof batch->ops[0],
                                    .provider_stride = sizeof(inlay_provider) };
    for (size_t i = 0; i < custom->count && failed == NULL; i++) {
        const OrtCustomOp *op = custom->ops[i].op;
        char signature[ORT_SIGNATURE];
        const known_op *existing = NULL;

        failed = ort_custom_signature(op, signature);
        if (failed == NULL)
            failed =
                find_known(custom->ops[i].domain, op->GetName(op), ort_custom_start_version(op), signature, &existing);
        if (failed == NULL && existing == NULL)
            failed = add_known(batch, custom->ops[i].domain, op->GetName(op), ort_custom_start_version(op), signature);
    }
    if (failed == NULL && batch->plugin.operator_count > 0 && batch_count == MOST_BATCHES)
        failed = ort_fail(ORT_FAIL, "more than %d sets of custom operators in one process", MOST_BATCHES);
    if (failed != NULL || batch->plugin.operator_count == 0) {
        remove_batch(batch);
        return failed;
    }
    INLAY_CHECK(batch_count < MOST_BATCHES);
    batches[batch_count] = batch;
    failed = ort_from(inlay_plugin_register(entries[batch_count], &diag), &diag);
    if (failed == NULL)
        batch_count++;
    else
        remove_batch(batch);
    return failed;
}

static OrtStatus *collect_operators(const OrtSessionOptions *options, ort_custom *custom)
{
    size_t count = 0;

    for (size_t d = 0; d < options->domain_count; d++)
        count += options->domains[d]->count;
    custom->ops = calloc(count + 1, sizeof *custom->ops);
    if (custom->ops == NULL || !ort_pairs_copy(&custom->entries, &options->entries))
        return ort_no_memory();
    for (size_t d = 0; d < options->domain_count; d++)
        for (size_t i = 0; i < options->domains[d]->count; i++) {
            const char *name = options->domains[d]->name;
            ort_custom_op *op = &custom->ops[custom->count];

            op->op = options->domains[d]->ops[i];
            op->domain = strdup(name[0] != '\0' ? name : "ai.onnx");
            if (op->domain == NULL)
                return ort_no_memory();
            custom->count++;
        }
    return NULL;
}

/* Adds the provider ort_custom to the selected providers, and passes the number of the session to it. */
static OrtStatus *choose_provider(const ort_custom *custom, inlay_options *to)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char list[1024], number[32];
    inlay_status status;

    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)custom->id);
    status = inlay_plugin_register(ort_provider_open, &diag);
    if (status == INLAY_OK)
        status = inlay_options_set(to, ORT_PROVIDER ".session", number, &diag);
    if (status == INLAY_OK)
        status = inlay_options_get(to, "providers", list, sizeof list - sizeof ORT_PROVIDER - 1, NULL, &diag);
    if (status == INLAY_OK && list[0] != '\0') {
        size_t at = strlen(list);

        (void)snprintf(list + at, sizeof list - at, ",%s", ORT_PROVIDER);
        status = inlay_options_set(to, "providers", list, &diag);
    }
    return ort_from(status, &diag);
}

OrtStatus *ort_custom_begin(const OrtSessionOptions *options, inlay_options *to, ort_custom **out)
{
    OrtStatus *failed;
    ort_custom *custom;

    *out = NULL;
    if (options->domain_count == 0)
        return NULL;
    custom = calloc(1, sizeof *custom);
    if (custom == NULL)
        return ort_no_memory();
    failed = collect_operators(options, custom);
    (void)pthread_mutex_lock(&registering);
    if (failed == NULL)
        failed = register_new(custom);
    (void)pthread_mutex_unlock(&registering);
    (void)pthread_mutex_lock(&listing);
    custom->id = next_id++;
    custom->next = sessions;
    sessions = custom;
    (void)pthread_mutex_unlock(&listing);
    if (failed == NULL)
        failed = choose_provider(custom, to);
    if (failed != NULL) {
        ort_custom_end(custom);
        return failed;
    }
    (void)ort_custom_creating(custom);
    *out = custom;
    return NULL;
}

void ort_custom_end(ort_custom *custom)
{
    ort_custom **link = &sessions;

    if (custom == NULL)
        return;
    (void)pthread_mutex_lock(&listing);
    while (*link != NULL && *link != custom)
        link = &(*link)->next;
    if (*link != NULL)
        *link = custom->next;
    (void)pthread_mutex_unlock(&listing);
    for (size_t i = 0; i < custom->count; i++)
        free(custom->ops[i].domain);
    ort_pairs_clear(&custom->entries);
    free(custom->ops);
    free(custom);
}

const ort_custom *ort_custom_find(uint64_t id)
{
    const ort_custom *custom;

    (void)pthread_mutex_lock(&listing);
    custom = sessions;
    while (custom != NULL && custom->id != id)
        custom = custom->next;
    (void)pthread_mutex_unlock(&listing);
    return custom;
}

const OrtCustomOp *ort_custom_match(const ort_custom *custom, const inlay_node_info *node)
{
    INLAY_CHECK(custom != NULL);
    for (size_t i = 0; i < custom->count; i++) {
        const OrtCustomOp *op = custom->ops[i].op;

        if (ort_custom_start_version(op) == node->since_version &&
            strcmp(custom->ops[i].domain, node->domain.data) == 0 && strcmp(op->GetName(op), node->op_type.data) == 0)
            return op;
    }
    return NULL;
}
