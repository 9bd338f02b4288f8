/* The handshake. */
#include "internal.h"
#include "inlay/extensions.h"
#include <string.h>

static void destroy(void *state_)
{
    kit_state *state = state_;

    if (state == NULL)
        return;
    if (state->self->close != NULL && state->user != NULL)
        state->self->close(state->user);
    kit_rows_deinit(state);
    free(state);
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    kit_state *state = calloc(1, sizeof *state);
    inlay_status status;

    *out_state = NULL;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "opening a provider");
    state->self = ctx;
    state->host = host;
    INLAY_TRY(kit_rows_init(state, diag));
    if (state->self->open != NULL)
        INLAY_TRY(state->self->open(host, args, &state->user, diag));
    *out_state = state;
    state = NULL;
done:
    if (status != INLAY_OK && state != NULL)
        state->user = NULL; /* if open failed, close must not be called */
    destroy(state);
    return status;
}

/* Branches may run concurrently: the only data that kernels keep between calls is the state of their node, and
 * concurrent runs use that anyway. */
static uint32_t may_branch(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled, (void)instance;
    return 1;
}

static const void *extension(void *state, const char *name)
{
    static const inlay_ext_branches branches = { .struct_size = sizeof branches, .may = may_branch };

    (void)state;
    return strcmp(name, INLAY_EXT_BRANCHES) == 0 ? &branches : NULL;
}

inlay_provider kit_describe_provider(const kit_provider *self)
{
    return (inlay_provider){
        .struct_size = sizeof(inlay_provider),
        .name = self->name,
        .description = self->description,
        .device_kind = INLAY_DEVICE_CPU,
        .flags = self->flags,
        .options = self->options,
        .option_count = self->option_count,
        .option_stride = sizeof(inlay_option),
        .poll_ms = self->poll_ms,
        .ctx = (void *)(uintptr_t)self,
        .create = create,
        .destroy = destroy,
        .assess = kit_assess,
        .cost = kit_cost,
        .compile = kit_compile,
        .release_compiled = kit_release_compiled,
        .specialize = kit_specialize,
        .release_instance = kit_release_instance,
        .execute = kit_execute,
        .extension = extension,
    };
}

/* The first type in a signature that is no tensor ("seq(", "optional(", "map("), outside of texts; NULL: none. */
static const char *find_list_type(const char *signature)
{
    static const char *const types[] = { "seq(", "optional(", "map(" };
    bool is_quoted = false;

    for (const char *at = signature; *at != '\0'; at++) {
        is_quoted = is_quoted != (*at == '\'');
        for (size_t i = 0; !is_quoted && i < sizeof types / sizeof types[0]; i++)
            if (*at == types[i][0] && strncmp(at, types[i], strlen(types[i])) == 0)
                return types[i];
    }
    return NULL;
}

/* Nodes with sequences, optionals or maps are never candidates of a provider, so no kernel would ever run them. */
static inlay_status check_operators(const kit_plugin *self, inlay_diag *diag)
{
    for (uint32_t i = 0; i < self->operator_count; i++) {
        const inlay_operator *op = &self->operators[i];
        const char *type = op->signature != NULL ? find_list_type(op->signature) : NULL;

        if (type != NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "operator %s.%s-%u: its signature has '%s...)', but kernels compute tensors; pass the "
                              "items as a variadic input or output ('*')",
                              op->domain, op->op_type, op->since_version, type);
    }
    return INLAY_OK;
}

inlay_status kit_open(const kit_plugin *self, kit_exports *exports, const inlay_host *host,
                      const inlay_plugin **out_plugin, inlay_diag *diag)
{
    inlay_status status;

    INLAY_CHECK(self->name != NULL && self->version != NULL);
    *out_plugin = NULL;
    if (host == NULL || !INLAY_HAS(host, extension) || host->abi_major < INLAY_ABI_MAJOR ||
        host->abi_major_oldest > INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "plugin '%s' needs a host of ABI %u.%u; this one is %u.%u",
                          self->name, INLAY_ABI_MAJOR, INLAY_ABI_MINOR, host != NULL ? host->abi_major : 0,
                          host != NULL ? host->abi_minor : 0);
    status = check_operators(self, diag);
    if (status != INLAY_OK)
        return status;
    kit_build_id(self, self->version, exports->build_id, sizeof exports->build_id);
    if (self->provider != NULL)
        exports->provider = kit_describe_provider(self->provider);
    exports->plugin = (inlay_plugin){
        .struct_size = sizeof exports->plugin,
        .abi_major = INLAY_ABI_MAJOR,
        .abi_minor = INLAY_ABI_MINOR,
        .name = self->name,
        .version = self->version,
        .build_id = exports->build_id,
        .flags = self->flags,
        .providers = self->provider != NULL ? &exports->provider : NULL,
        .provider_count = self->provider != NULL,
        .provider_stride = sizeof(inlay_provider),
        .operators = self->operators,
        .operator_count = self->operator_count,
        .operator_stride = sizeof(inlay_operator),
    };
    *out_plugin = &exports->plugin;
    return INLAY_OK;
}
