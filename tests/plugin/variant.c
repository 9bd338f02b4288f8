/* One plugin in several variants, selected by -DVARIANT_<name>: cases that a host may find in its plugin folders. It
 * uses plugin.h only. Its provider offers nothing; only its description matters. */
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include <string.h>

#define UNUSED __attribute__((unused))

static UNUSED int opened, created;
static UNUSED const inlay_host *teller; /* of the latest open or create */

static UNUSED inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
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
static UNUSED void destroy(void *state)
{
    (*(int *)state)--;
}
static UNUSED inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    (void)state, (void)request, (void)diag;
    return INLAY_OK;
}
static UNUSED inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    (void)state, (void)diag, (void)request, (void)out;
    return INLAY_OK;
}
static UNUSED inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                                   inlay_diag *diag)
{
    (void)state, (void)request, (void)out_compiled;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "offers nothing");
}
static UNUSED void release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state, (void)compiled;
}
static UNUSED inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                                      inlay_instance **out_instance, inlay_diag *diag)
{
    (void)state, (void)compiled, (void)request, (void)out_instance, (void)diag;
    return INLAY_UNSUPPORTED;
}
static UNUSED void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled, (void)instance;
}
static UNUSED inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                                   const inlay_exec_args *args)
{
    (void)state, (void)compiled, (void)instance, (void)args;
    return INLAY_UNSUPPORTED;
}
static UNUSED void shutdown(void *ctx)
{
    (void)ctx;
    opened--;
#ifdef VARIANT_again
    teller->log(teller->ctx, INLAY_LOG_INFO, "shut down");
#endif
}

static UNUSED const inlay_option options[] = {
    { .name = "device", .doc = "which one", .default_value = "0", .min = 0, .max = 15, .kind = INLAY_OPTION_INT },
    { .name = "fast_math", .doc = "faster", .default_value = "false", .kind = INLAY_OPTION_BOOL },
    { .name = "tile",
      .doc = "shape",
      .default_value = "auto",
      .choices = "auto|small|large",
      .kind = INLAY_OPTION_ENUM },
    { .name = "scale", .doc = "factor", .default_value = "0.5", .kind = INLAY_OPTION_FLOAT },
    { .name = "label", .doc = "text", .kind = INLAY_OPTION_STRING },
#ifdef VARIANT_reserved_option
    { .name = "later", .doc = "", .kind = INLAY_OPTION_STRING, .reserved = 1 },
#endif
#ifdef VARIANT_bad_default
    { .name = "broken", .doc = "", .default_value = "many", .kind = INLAY_OPTION_INT },
#endif
};

/* A device that cannot be described: the log shows how it is closed. */
static UNUSED inlay_status describe(void *state, const inlay_describe_request *request, inlay_diag *diag)
{
    (void)state, (void)request;
    return inlay_fail(diag, INLAY_DEVICE_LOST, "it does not answer");
}
/* A device that has another domain than the plugin states, which nothing can announce at this time. */
static UNUSED inlay_status describe_more(void *state, const inlay_describe_request *request, inlay_diag *diag)
{
    (void)state, (void)diag;
    ((inlay_describe_request *)(uintptr_t)request)->domain_count++;
    return INLAY_OK;
}
static UNUSED void quiesce(void *state)
{
    (void)state;
    teller->log(teller->ctx, INLAY_LOG_INFO, "quiesced");
}
static UNUSED void tell_destroy(void *state)
{
    (*(int *)state)--;
    teller->log(teller->ctx, INLAY_LOG_INFO, "destroyed");
}

/* Operators that are known once the provider is open. */
static UNUSED const void *extension(void *state, const char *name)
{
#ifdef VARIANT_late_onnx_domain
    static const char domain[] = "ai.onnx";
#else
    static const char domain[] = "com.example";
#endif
    static const inlay_operator operators[] = {
        { .struct_size = sizeof operators[0],
          .domain = domain,
          .op_type = "Late",
          .signature = "x:float -> y:float",
          .since_version = 1 },
        { .struct_size = sizeof operators[0],
          .domain = domain,
          .op_type = "Late",
          .signature = "x:double -> y:double",
          .since_version = 3 },
    };
    static const inlay_ext_operators table = {
        .struct_size = sizeof table, .operators = operators, .operator_count = 2, .operator_stride = sizeof operators[0]
    };

    (void)state;
    return strcmp(name, INLAY_EXT_OPERATORS) == 0 ? &table : NULL;
}

#define PROVIDER(name_)                                                                                                \
    {                                                                                                                  \
        .struct_size = sizeof(inlay_provider), .name = name_, .description = "offers nothing",                         \
        .device_kind = INLAY_DEVICE_CPU, .options = options, .option_count = sizeof options / sizeof options[0],       \
        .option_stride = sizeof options[0], .create = create, .destroy = destroy, .assess = assess, .cost = cost,      \
        .compile = compile, .release_compiled = release_compiled, .specialize = specialize,                            \
        .release_instance = release_instance, .execute = execute                                                       \
    }

#ifdef VARIANT_no_shutdown
#define SHUTDOWN NULL
#else
#define SHUTDOWN shutdown
#endif
#define PLUGIN(list)                                                                                                   \
    .struct_size = sizeof(inlay_plugin), .abi_major = INLAY_ABI_MAJOR, .abi_minor = INLAY_ABI_MINOR,                   \
    .name = "variant", .version = "1.0", .build_id = "v", .providers = list, .provider_count = 1,                      \
    .provider_stride = sizeof list[0], .shutdown = SHUTDOWN

#if defined(VARIANT_older)
/* As compiled when inlay_provider ended with execute and inlay_plugin with operator_stride: following memory does
 * not belong to them. */
static inlay_provider providers[] = { PROVIDER("older") };
static UNUSED inlay_plugin plugin = { PLUGIN(providers) };
static void prepare(void)
{
    inlay_provider *provider = &providers[0];

    provider->struct_size = offsetof(inlay_provider, fingerprint);
    memset((char *)provider + provider->struct_size, 1, sizeof *provider - provider->struct_size);
    plugin.struct_size = offsetof(inlay_plugin, reserved);
    memset((char *)&plugin + plugin.struct_size, 1, sizeof plugin - plugin.struct_size);
}
#elif defined(VARIANT_newer)
/* As compiled with longer structs, including elements of arrays. */
typedef struct new_provider {
    inlay_provider v1;
    uint64_t more[7];
} new_provider;
typedef struct new_option {
    inlay_option v1;
    uint64_t more[3];
} new_option;
typedef struct new_plugin {
    inlay_plugin v1;
    uint64_t more[5];
} new_plugin;
static new_option new_options[2];
static new_provider providers[] = { { PROVIDER("newer"), { 1, 2, 3 } }, { PROVIDER("newer2"), { 1, 2, 3 } } };
static new_plugin plugin_new = { { PLUGIN((&providers[0].v1)) }, { 9 } };
#define plugin plugin_new.v1
static void prepare(void)
{
    new_options[0].v1 = options[0];
    new_options[1].v1 = options[3];
    for (int i = 0; i < 2; i++) {
        providers[i].v1.struct_size = sizeof providers[i];
        providers[i].v1.options = &new_options[0].v1;
        providers[i].v1.option_count = 2;
        providers[i].v1.option_stride = sizeof new_options[0];
    }
    plugin.struct_size = sizeof plugin_new;
    plugin.abi_minor = 99;
    plugin.provider_count = 2;
    plugin.provider_stride = sizeof providers[0];
}
#elif defined(VARIANT_onnx_domain) || defined(VARIANT_bad_signature)
static const inlay_operator operators[] = { {
    .struct_size = sizeof(inlay_operator),
#ifdef VARIANT_onnx_domain
    .domain = "ai.onnx",
    .signature = "X:T -> Y:T; T=float",
#else
    .domain = "com.example",
    .signature = "X:T -> Y:T; T=flaot",
#endif
    .op_type = "Blur",
    .since_version = 1,
} };
static inlay_plugin plugin = { .struct_size = sizeof(inlay_plugin),
                               .abi_major = 1,
                               .name = "variant",
                               .build_id = "v",
                               .operators = operators,
                               .operator_count = 1,
                               .operator_stride = sizeof operators[0] };
static void prepare(void)
{
}
#elif defined(VARIANT_nothing)
static inlay_plugin plugin = {
    .struct_size = sizeof(inlay_plugin), .abi_major = 1, .name = "variant", .build_id = "v"
};
static void prepare(void)
{
}
#else
static inlay_provider providers[] = { PROVIDER("variant") };
static UNUSED inlay_plugin plugin = { PLUGIN(providers) };
static UNUSED void prepare(void)
{
#if defined(VARIANT_next_major)
    plugin.abi_major = INLAY_ABI_MAJOR + 1;
#elif defined(VARIANT_no_build_id)
    plugin.build_id = NULL;
#elif defined(VARIANT_no_execute)
    providers[0].execute = NULL;
#elif defined(VARIANT_low_flag)
    providers[0].flags = 1u << 9;
#elif defined(VARIANT_high_flag)
    providers[0].name = "high_flag";
    providers[0].flags = 1u << 29;
#elif defined(VARIANT_reserved_plugin)
    plugin.reserved = 1;
#elif defined(VARIANT_reserved_provider)
    providers[0].reserved = 1;
#elif defined(VARIANT_more_domains)
    providers[0].name = "more_domains";
    providers[0].describe = describe_more;
#elif defined(VARIANT_late_operator) || defined(VARIANT_late_onnx_domain)
    providers[0].name = "late_operator";
    providers[0].extension = extension;
#elif defined(VARIANT_bad_describe)
    providers[0].name = "bad_describe";
    providers[0].describe = describe;
    providers[0].quiesce = quiesce;
    providers[0].destroy = tell_destroy;
#endif
}
#endif

#ifndef VARIANT_no_symbol
inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    if (host->abi_major != INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the host is too old");
#ifdef VARIANT_refuses
    (void)out_plugin;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "not on a Friday");
#else
    prepare();
    opened++;
#if defined(VARIANT_again) || defined(VARIANT_no_shutdown)
    teller = host;
    host->log(host->ctx, INLAY_LOG_INFO, opened == 1 ? "opened once" : "opened twice");
#endif
    *out_plugin = &plugin;
    return INLAY_OK;
#endif
}
#endif
