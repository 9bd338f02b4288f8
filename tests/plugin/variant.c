/* A plugin in several variants, cases that a host may find in its plugin folders. The name of the file selects the
 * variant: all files are copies of one, except no_symbol, which exports another name. It uses plugin.h only. Its
 * provider offers nothing; only its description matters. */
#include "defect.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"

static int opened, created;
static const inlay_host *teller; /* of the latest open or create */

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    (void)ctx;
    if (args->option_count > 0 && args->options[0].i == 13)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "there is no device 13");
    created++;
    host->log(host->ctx, INLAY_LOG_INFO, "created");
    teller = host;
    *out_state = &created;
    return INLAY_OK;
}
static void destroy(void *state)
{
    (*(int *)state)--;
}
static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    (void)state, (void)request, (void)diag;
    return INLAY_OK;
}
static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    (void)state, (void)diag, (void)request, (void)out;
    return INLAY_OK;
}
static inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    (void)state, (void)request, (void)out_compiled;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "offers nothing");
}
static void release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state, (void)compiled;
}
static inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag)
{
    (void)state, (void)compiled, (void)request, (void)out_instance, (void)diag;
    return INLAY_UNSUPPORTED;
}
static void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled, (void)instance;
}
static inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    (void)state, (void)compiled, (void)instance, (void)args;
    return INLAY_UNSUPPORTED;
}
static void shutdown(void *ctx)
{
    (void)ctx;
    opened--;
    if (is("again"))
        teller->log(teller->ctx, INLAY_LOG_INFO, "shut down");
}

static const inlay_option options[] = {
    { .name = "device", .doc = "which one", .default_value = "0", .min = 0, .max = 15, .kind = INLAY_OPTION_INT },
    { .name = "fast_math", .doc = "faster", .default_value = "false", .kind = INLAY_OPTION_BOOL },
    { .name = "tile",
      .doc = "shape",
      .default_value = "auto",
      .choices = "auto|small|large",
      .kind = INLAY_OPTION_ENUM },
    { .name = "scale", .doc = "factor", .default_value = "0.5", .kind = INLAY_OPTION_FLOAT },
    { .name = "label", .doc = "text", .kind = INLAY_OPTION_STRING },
};
static const inlay_option bad_default = { .name = "broken", .default_value = "many", .kind = INLAY_OPTION_INT };
static const inlay_option reserved_option = { .name = "later", .kind = INLAY_OPTION_STRING, .reserved = 1 };

/* A device that cannot be described: the log shows how it is closed. */
static inlay_status describe(void *state, const inlay_describe_request *request, inlay_diag *diag)
{
    (void)state, (void)request;
    return inlay_fail(diag, INLAY_DEVICE_LOST, "it does not answer");
}
/* A device that has another domain than the plugin states, which nothing can announce at this time. */
static inlay_status describe_more(void *state, const inlay_describe_request *request, inlay_diag *diag)
{
    (void)state, (void)diag;
    ((inlay_describe_request *)(uintptr_t)request)->domain_count++;
    return INLAY_OK;
}
static void quiesce(void *state)
{
    (void)state;
    teller->log(teller->ctx, INLAY_LOG_INFO, "quiesced");
}
static void tell_destroy(void *state)
{
    (*(int *)state)--;
    teller->log(teller->ctx, INLAY_LOG_INFO, "destroyed");
}

/* Operators that are known once the provider is open. */
static const void *extension(void *state, const char *name)
{
    static inlay_operator operators[] = {
        { .struct_size = sizeof operators[0],
          .domain = "com.example",
          .op_type = "Late",
          .signature = "x:float -> y:float",
          .since_version = 1 },
        { .struct_size = sizeof operators[0],
          .domain = "com.example",
          .op_type = "Late",
          .signature = "x:double -> y:double",
          .since_version = 3 },
    };
    static const inlay_ext_operators table = {
        .struct_size = sizeof table, .operators = operators, .operator_count = 2, .operator_stride = sizeof operators[0]
    };

    (void)state;
    if (is("late_onnx_domain"))
        operators[0].domain = operators[1].domain = "ai.onnx";
    return strcmp(name, INLAY_EXT_OPERATORS) == 0 ? &table : NULL;
}

static inlay_provider provider = { .struct_size = sizeof(inlay_provider),
                                   .name = "variant",
                                   .description = "offers nothing",
                                   .device_kind = INLAY_DEVICE_CPU,
                                   .options = options,
                                   .option_count = sizeof options / sizeof options[0],
                                   .option_stride = sizeof options[0],
                                   .create = create,
                                   .destroy = destroy,
                                   .assess = assess,
                                   .cost = cost,
                                   .compile = compile,
                                   .release_compiled = release_compiled,
                                   .specialize = specialize,
                                   .release_instance = release_instance,
                                   .execute = execute };
static inlay_plugin plugin = { .struct_size = sizeof(inlay_plugin),
                               .abi_major = INLAY_ABI_MAJOR,
                               .abi_minor = INLAY_ABI_MINOR,
                               .name = "variant",
                               .version = "1.0",
                               .build_id = "v",
                               .providers = &provider,
                               .provider_count = 1,
                               .provider_stride = sizeof provider,
                               .shutdown = shutdown };

/* As compiled when inlay_provider ended with execute and inlay_plugin with operator_stride: following memory does not
 * belong to them. */
static void shorten(void)
{
    provider.name = "older";
    provider.struct_size = offsetof(inlay_provider, fingerprint);
    memset((char *)&provider + provider.struct_size, 1, sizeof provider - provider.struct_size);
    plugin.struct_size = offsetof(inlay_plugin, reserved);
    memset((char *)&plugin + plugin.struct_size, 1, sizeof plugin - plugin.struct_size);
}

/* As compiled with longer structs, including elements of arrays. */
static const inlay_plugin *lengthen(void)
{
    static struct new_option {
        inlay_option v1;
        uint64_t more[3];
    } new_options[2];
    static struct new_provider {
        inlay_provider v1;
        uint64_t more[7];
    } providers[2] = { { .more = { 1, 2, 3 } }, { .more = { 1, 2, 3 } } };
    static struct new_plugin {
        inlay_plugin v1;
        uint64_t more[5];
    } plugin_new = { .more = { 9 } };

    new_options[0].v1 = options[0];
    new_options[1].v1 = options[3];
    for (int i = 0; i < 2; i++) {
        providers[i].v1 = provider;
        providers[i].v1.name = i == 0 ? "newer" : "newer2";
        providers[i].v1.struct_size = sizeof providers[i];
        providers[i].v1.options = &new_options[0].v1;
        providers[i].v1.option_count = 2;
        providers[i].v1.option_stride = sizeof new_options[0];
    }
    plugin_new.v1 = plugin;
    plugin_new.v1.struct_size = sizeof plugin_new;
    plugin_new.v1.abi_minor = 99;
    plugin_new.v1.providers = &providers[0].v1;
    plugin_new.v1.provider_count = 2;
    plugin_new.v1.provider_stride = sizeof providers[0];
    return &plugin_new.v1;
}

/* An operator instead of the provider, or nothing. */
static void leave_provider_out(bool has_operator)
{
    static inlay_operator operators[] = { { .struct_size = sizeof(inlay_operator),
                                            .domain = "ai.onnx",
                                            .signature = "X:T -> Y:T; T=float",
                                            .op_type = "Blur",
                                            .since_version = 1 } };

    if (is("bad_signature")) {
        operators[0].domain = "com.example";
        operators[0].signature = "X:T -> Y:T; T=flaot";
    }
    plugin = (inlay_plugin){ .struct_size = sizeof(inlay_plugin),
                             .abi_major = 1,
                             .name = "variant",
                             .build_id = "v",
                             .operators = has_operator ? operators : NULL,
                             .operator_count = has_operator,
                             .operator_stride = has_operator ? sizeof operators[0] : 0 };
}

static void add_option(const inlay_option *option)
{
    enum { OPTIONS = sizeof options / sizeof options[0] };
    static inlay_option more[OPTIONS + 1];

    memcpy(more, options, sizeof options);
    more[OPTIONS] = *option;
    provider.options = more;
    provider.option_count = OPTIONS + 1;
}

/* Gives the plugin what the variant has. */
static const inlay_plugin *vary(void)
{
    if (is("newer"))
        return lengthen();
    if (is("older"))
        shorten();
    if (is("onnx_domain") || is("bad_signature") || is("nothing"))
        leave_provider_out(!is("nothing"));
    if (is("reserved_option") || is("bad_default"))
        add_option(is("bad_default") ? &bad_default : &reserved_option);
    if (is("next_major"))
        plugin.abi_major = INLAY_ABI_MAJOR + 1;
    if (is("no_build_id"))
        plugin.build_id = NULL;
    if (is("no_execute"))
        provider.execute = NULL;
    if (is("low_flag"))
        provider.flags = 1u << 9;
    if (is("high_flag") || is("more_domains") || is("bad_describe"))
        provider.name = defect;
    if (is("high_flag"))
        provider.flags = 1u << 29;
    if (is("reserved_plugin"))
        plugin.reserved = 1;
    if (is("reserved_provider"))
        provider.reserved = 1;
    if (is("more_domains"))
        provider.describe = describe_more;
    if (is("late_operator") || is("late_onnx_domain")) {
        provider.name = "late_operator";
        provider.extension = extension;
    }
    if (is("bad_describe")) {
        provider.describe = describe;
        provider.quiesce = quiesce;
        provider.destroy = tell_destroy;
    }
    if (is("no_shutdown"))
        plugin.shutdown = NULL;
    return &plugin;
}

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    read_defect();
    if (host->abi_major != INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the host is too old");
    if (is("refuses"))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "not on a Friday");
    opened++;
    if (is("again") || is("no_shutdown")) {
        teller = host;
        host->log(host->ctx, INLAY_LOG_INFO, opened == 1 ? "opened once" : "opened twice");
    }
    *out_plugin = vary();
    return INLAY_OK;
}
