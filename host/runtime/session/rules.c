/* session/rules.c - reads the rules of the assignment from the options. */
#include "base/memory.h"
#include "inlay/plugin.h"
#include "session/session.h"
#include "config/checks.h"
#include "inlay/check.h"
#include "partition/certificate/certificate.h"
#include <string.h>

static uint32_t count_items(const inlay_options *options, uint32_t option)
{
    uint32_t count = 0;

    while (options_list(options, option, count) != NULL)
        count++;
    return count;
}

/* Reads "PATTERN=PROVIDER", or "PROVIDER" if `bare`. Names of nodes may contain '=', names of providers do not. */
static inlay_status read_node_rule(inlay_session *session, const char *option, const char *text, bool bare,
                                   node_rule *out, inlay_diag *diag)
{
    const char *equals = strrchr(text, '=');

    if ((equals == NULL && !bare) || equals == text || text[0] == '\0' || (equals != NULL && equals[1] == '\0'))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option %s: '%s' is not PATTERN=PROVIDER%s", option, text,
                          bare ? " or PROVIDER" : "");
    out->pattern = equals == NULL ? "*" : arena_string_n(&session->arena, text, (size_t)(equals - text));
    out->provider = arena_string(&session->arena, equals == NULL ? text : equals + 1);
    return out->pattern == NULL || out->provider == NULL ? no_memory(diag, "for the rules of a session") : INLAY_OK;
}

static inlay_status read_node_rules(inlay_session *session, const inlay_options *options, uint32_t option,
                                    const char *name, const node_rule **out_list, uint32_t *out_count, inlay_diag *diag)
{
    uint32_t count = count_items(options, option);
    node_rule *list = arena_array(&session->arena, (size_t)count + 1, sizeof *list);

    *out_list = list;
    *out_count = count;
    if (list == NULL)
        return no_memory(diag, "for the rules of a session");
    for (uint32_t i = 0; i < count; i++) {
        inlay_status status =
            read_node_rule(session, name, options_list(options, option, i), option == OPTION_forbid, &list[i], diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

static inlay_status read_requires(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    uint32_t count = count_items(options, OPTION_require);
    const char **list = arena_array(&session->arena, (size_t)count + 1, sizeof *list);

    if (list == NULL)
        return no_memory(diag, "for the rules of a session");
    for (uint32_t i = 0; i < count; i++) {
        list[i] = arena_string(&session->arena, options_list(options, OPTION_require, i));
        if (list[i] == NULL)
            return no_memory(diag, "for the rules of a session");
    }
    session->rules.requires = list;
    session->rules.require_count = count;
    return INLAY_OK;
}

static inlay_status read_limits(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    partition_limit *list;
    option_pair pair;
    uint32_t count = 0;

    while (options_pair(options, OPTION_memory_limit, count, &pair))
        count++;
    list = arena_array(&session->arena, (size_t)count + 1, sizeof *list);
    if (list == NULL)
        return no_memory(diag, "for the rules of a session");
    count = 0;
    for (uint32_t k = 0; options_pair(options, OPTION_memory_limit, k, &pair); k++) {
        const uint32_t i = count;

        if (pair.key_bytes == 4 && memcmp(pair.key, "host", 4) == 0)
            continue; /* limit of the whole session, see limit.c */
        count++;
        list[i].provider = arena_string_n(&session->arena, pair.key, pair.key_bytes);
        if (list[i].provider == NULL)
            return no_memory(diag, "for the rules of a session");
        if (!option_bytes(pair.value, &list[i].bytes))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "option memory_limit: '%s=%s' is not NAME=BYTES (BYTES may end in K, M or G)",
                              list[i].provider, pair.value);
    }
    session->rules.limits = list;
    session->rules.limit_count = count;
    return INLAY_OK;
}

/* Applies a certificate to the providers that it was written for: of several with its name, such as ort_ep#npu and
 * ort_ep#gpu, to those with its options. One for providers that the session does not have is not an error, because one
 * setting may be used for many sessions. */
static inlay_status read_certificate(inlay_session *session, const char *path, const certificate_provider **trusted,
                                     inlay_diag *diag)
{
    certificate_file *file;
    inlay_status status = certificate_load(path, &session->arena, &file, diag), fits = INLAY_OK;
    uint32_t used = 0;

    for (uint32_t i = 0; status == INLAY_OK && i < session->env.provider_count; i++) {
        const partition_provider *provider = &session->providers[i];
        const certificate_identity opened_as = { provider->plugin_path, provider->settings, provider->setting_count };
        const certificate_provider *found = certificate_find(file, provider->table->name);
        inlay_status own;

        if (found == NULL)
            continue;
        own = certificate_fits(file, found, &opened_as, fits == INLAY_OK ? diag : NULL);
        if (own == INLAY_OK) {
            trusted[i] = found;
            used++;
        } else if (fits == INLAY_OK) {
            fits = own;
        }
    }
    return status != INLAY_OK || used > 0 ? status : fits;
}

/* Reads option trust: paths separated by colons. */
static inlay_status read_trust(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    const char *list = options_text(options, OPTION_trust);
    const certificate_provider **trusted = NULL;
    inlay_status status = INLAY_OK;

    if (list[0] == '\0')
        return INLAY_OK;
    trusted = arena_array(&session->arena, (size_t)session->env.provider_count + 1, sizeof *trusted);
    while (trusted != NULL && status == INLAY_OK && *list != '\0') {
        const size_t bytes = strcspn(list, ":");
        const char *path = arena_string_n(&session->arena, list, bytes);

        if (path == NULL)
            return no_memory(diag, "for the rules of a session");
        if (bytes > 0)
            status = read_certificate(session, path, trusted, diag);
        list += bytes + (list[bytes] == ':');
    }
    session->rules.trusted = trusted;
    return trusted == NULL ? no_memory(diag, "for the rules of a session") : status;
}

static bool is_cpu(const partition_provider *provider)
{
    return provider->table->device_kind == INLAY_DEVICE_CPU || provider->unnamed; /* or a CPU emulates its device */
}

/* A power for a provider that the session does not have is not an error, because one setting may be used for many
 * sessions. */
static void read_power(inlay_session *session, const inlay_options *options)
{
    double cpu_watts = 0;
    option_pair pair;

    for (uint32_t i = 0; i < session->env.provider_count; i++) {
        partition_provider *provider = &session->providers[i];

        for (uint32_t k = 0; options_pair(options, OPTION_power_watts, k, &pair); k++)
            if (strlen(provider->name) == pair.key_bytes && memcmp(provider->name, pair.key, pair.key_bytes) == 0)
                (void)option_watts(pair.value, &provider->watts);
        if (cpu_watts == 0 && is_cpu(provider))
            cpu_watts = provider->watts;
    }
    for (uint32_t i = 0; i < session->env.provider_count; i++)
        if (session->providers[i].watts == 0 && is_cpu(&session->providers[i]))
            session->providers[i].watts = cpu_watts;
}

static inlay_status read_objective(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    const char *name = options_text(options, OPTION_objective);
    uint32_t objective = 0;

    while (objective < OBJECTIVE_COUNT - 1 && strcmp(partition_objective_name(objective), name) != 0)
        objective++;
    session->rules.objective = objective;
    read_power(session, options);
    for (uint32_t i = 0; objective == OBJECTIVE_ENERGY && i < session->env.provider_count; i++)
        if (session->providers[i].watts == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "option objective: energy requires the power of each device; set power_watts to %s=WATTS",
                              session->providers[i].name);
    return INLAY_OK;
}

inlay_status session_rules_read(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    const char *file = options_text(options, OPTION_plan);
    partition_rules *rules = &session->rules;
    inlay_status status = INLAY_OK;

    rules->by_priority =
        strcmp(options_text(options, OPTION_policy), "priority") == 0 || options_on(options, OPTION_reproducible);
    rules->max_partitions = (uint32_t)options_int(options, OPTION_max_partitions);
    rules->single_nodes = options_int(options, OPTION_check_finite) != 0;
    rules->no_cpu = options_int(options, OPTION_no_cpu) != 0;
    INLAY_TRY(read_node_rules(session, options, OPTION_pin, "pin", &rules->pins, &rules->pin_count, diag));
    INLAY_TRY(read_node_rules(session, options, OPTION_forbid, "forbid", &rules->forbids, &rules->forbid_count, diag));
    INLAY_TRY(read_requires(session, options, diag));
    INLAY_TRY(read_limits(session, options, diag));
    INLAY_TRY(read_objective(session, options, diag));
    INLAY_TRY(read_trust(session, options, diag));
    if (file[0] != '\0') {
        rules->saved_plan = arena_string(&session->arena, file);
        if (rules->saved_plan == NULL)
            status = no_memory(diag, "for the rules of a session");
    }
done:
    return status;
}
