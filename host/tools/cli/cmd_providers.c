/* inlay providers: lists every plugin file, whether it was loaded, and its contents. */
#include "cli/cli.h"
#include "cli/plugins.h"
#include "cli/sources.h"
#include "cli/types.h"
#include "inlay/plugin.h"
#include "schema.h"
#include <string.h>

static const char doc_providers[] =
    "Lists the plugin files that were found and whether they were loaded, and the providers. --options adds their "
    "options and the operators that plugins define, --operators lists those that are built into inlay, too.\v"
    "Providers that can list the devices of the machine do so, without opening one: each with the option that selects "
    "it, its memory, and the reason if it cannot be used. A file that was not loaded has a reason. New files are first "
    "probed in a separate process; a file that crashed or hung there is in quarantine "
    "until it changes, for a day or ten minutes, or until --retry. A file that crashed with a model later is not "
    "loaded for "
    "that model, and after crashes with three models for none. Options of a provider are set with --option "
    "PROVIDER.NAME=VALUE.\n\n"
    "--kernels lists the source files of the providers' kernels, the instruction set levels that each is compiled for, "
    "and the level that runs on this CPU, limited by --isa. If that is c, plain C, a provider may use its library "
    "instead.\n\n"
    "Examples:\n"
    "  inlay providers\n"
    "  inlay providers --options\n"
    "  inlay providers --plugin-dirs /opt/my/plugins --json\n"
    "  inlay providers --retry my_plugin\n"
    "  inlay providers --kernels --isa avx2\n";

typedef struct providers_flags {
    const char *retry;
    bool options, kernels, operators, types;
} providers_flags;

static const cli_option options_of_providers[] = {
    { "retry", "NAME|FILE", "Try a quarantined plugin again, by its name, the name of a provider, or the file",
      CLI_TEXT(providers_flags, retry) },
    { "options", NULL, "List the options of each provider and the operators of plugins, too",
      CLI_SET(providers_flags, options) },
    { "operators", NULL, "List the operators of every domain and their versions, not the providers",
      CLI_SET(providers_flags, operators) },
    { "kernels", NULL, "List the source files of kernels and their instances, not the providers",
      CLI_SET(providers_flags, kernels) },
    { "types", NULL, "Print a Markdown table of the types that providers support for each operator version",
      CLI_SET(providers_flags, types) },
    { 0 },
};

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static const char *device_text(uint32_t kind)
{
    static const char *const kinds[] = { "?", "CPU", "GPU", "NPU", "other device" };
    return kinds[kind < 5 ? kind : 0];
}

static const char *option_kind_text(uint32_t kind)
{
    static const char *const kinds[] = { "?", "bool", "int", "float", "string", "enum" };
    return kinds[kind < 6 ? kind : 0];
}

static void print_option(const char *owner, const inlay_option *option)
{
    (void)printf("    %s.%s (%s", owner, option->name, option_kind_text(option->kind));
    if (option->kind == INLAY_OPTION_ENUM && option->choices != NULL)
        (void)printf(": %s", option->choices);
    if (option->kind == INLAY_OPTION_INT && (option->min != 0 || option->max != 0))
        (void)printf(" from %lld to %lld", (long long)option->min, (long long)option->max);
    if (option->default_value != NULL)
        (void)printf(", default %s", option->default_value);
    (void)printf("): %s\n", or_empty(option->doc));
}

static inlay_status print_device(void *user, const inlay_device_info *info)
{
    (void)user;
    (void)printf("    device %s%s%s: %s (%s", or_empty(info->option), info->option != NULL ? "=" : "",
                 or_empty(info->value), or_empty(info->name), device_text(info->kind));
    if (info->memory_bytes > 0)
        (void)printf(", %.1f GiB%s", (double)info->memory_bytes / (1u << 30),
                     (info->flags & INLAY_DEVICE_UNIFIED) != 0 ? " shared with the CPU" : "");
    if (info->free_bytes > 0)
        (void)printf(", %.1f GiB free", (double)info->free_bytes / (1u << 30));
    (void)printf("%s%s)%s%s\n", info->facts != NULL ? ", " : "", or_empty(info->facts),
                 info->unusable != NULL ? ": cannot be used: " : "", or_empty(info->unusable));
    return INLAY_OK;
}

/* Prints the devices of a provider that enumerates them; any other provider has one device, which is printed with its
 * name. */
static void print_devices(const plugin_provider *provider)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (provider->table->enumerate != NULL && plugin_devices(provider, print_device, NULL, &diag) != INLAY_OK)
        (void)printf("    no device: %s\n", diag.text);
}

static void print_provider(const plugin_provider *provider, bool with_options)
{
    (void)printf("  provider %s on %s: %s\n", provider->table->name, device_text(provider->table->device_kind),
                 or_empty(provider->table->description));
    for (uint32_t i = 0; i < provider->table->domain_count; i++)
        (void)printf("    memory %s, %llu bytes aligned to %llu\n", provider->domains[i].name,
                     (unsigned long long)provider->domains[i].memory_bytes,
                     (unsigned long long)provider->domains[i].alignment);
    print_devices(provider);
    for (uint32_t i = 0; with_options && i < provider->table->option_count; i++)
        print_option(provider->table->name, &provider->options[i]);
}

/* The operators that plugins define: all, or how many. */
static void print_plugin_operators(const plugin_set *set, bool all)
{
    const uint32_t count = plugin_set_operator_count(set);

    if (count == 0)
        (void)printf("operators: these plugins define none; --operators lists the built-in ones\n");
    else if (!all)
        (void)printf("%u operator%s of plugins, and options: --options lists them\n", count, count == 1 ? "" : "s");
    for (uint32_t i = 0; all && i < count; i++) {
        const inlay_operator *operator= plugin_set_operator(set, i);
        (void)printf("%s  %s.%s since version %u: %s\n",
                     i == 0 ? "operators:\n" : "", operator->domain, operator->op_type, operator->since_version,
                                                                                        operator->signature);
    }
}

static void print_crashes(const plugin_file *file)
{
    char why[512];
    const uint32_t models = plugin_file_crashes(file, why, sizeof why);

    if (models > 0)
        (void)printf("  not loaded for %u model%s for a day, or until --retry: %s\n", models, models == 1 ? "" : "s",
                     why);
}

static void print_text(const plugin_set *set, bool with_options)
{
    for (uint32_t i = 0; i < plugin_set_file_count(set); i++) {
        const plugin_file *file = plugin_set_file(set, i);
        if (!file->loaded) {
            (void)printf("%s: %s: %s\n", file->path, plugin_outcome_text(file->outcome), or_empty(file->reason));
            if (file->name != NULL)
                (void)printf("  would have provided %s%s%s: providers %s\n", file->name,
                             file->version != NULL ? " " : "", or_empty(file->version),
                             or_empty(file->providers)[0] != '\0' ? file->providers : "none");
            if (file->fix != NULL)
                (void)printf("  %s\n", file->fix);
            continue;
        }
        (void)printf("%s: %s %s\n", file->path, or_empty(file->name), or_empty(file->version));
        if (file->advice != NULL)
            (void)printf("  advice: %s\n", file->advice);
        print_crashes(file);
        for (uint32_t k = 0; k < plugin_set_provider_count(set); k++)
            if (plugin_set_provider(set, k)->file == file)
                print_provider(plugin_set_provider(set, k), with_options);
    }
    print_plugin_operators(set, with_options);
    if (plugin_set_file_count(set) == 0)
        (void)printf("no plugin found; --plugin-dirs sets the folders to search\n");
}

/* The operators of the tables with all their versions, then those of plugins. */
static json_t *all_operators(const plugin_set *set)
{
    json_t *list = json_array(), *last = NULL;
    uint32_t tables;
    const op_table *const *table = op_tables(&tables);

    for (uint32_t i = 0; i < tables; i++) {
        for (uint32_t row_index = 0; row_index < table[i]->count; row_index++) {
            const op_row *row = &table[i]->rows[row_index];

            if (row_index == 0 || strcmp(row[-1].op_type, row->op_type) != 0) {
                last = json_array();
                (void)json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "domain", table[i]->domain, "operator",
                                                            row->op_type, "versions", last));
            }
            (void)json_array_append_new(last, json_integer(row->since_version));
        }
    }
    for (uint32_t i = 0; i < plugin_set_operator_count(set); i++) {
        const inlay_operator *operator= plugin_set_operator(set, i);

        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:s, s:[i]}", "domain", operator->domain,
                                              "operator", operator->op_type, "versions", (int)operator->since_version));
    }
    return list;
}

static int print_operators(const cli_common *common, const plugin_set *set)
{
    json_t *list = all_operators(set), *one, *version;
    size_t i, k;

    if (common->json)
        return cli_print_json(common, json_pack("{s:o}", "operators", list), CLI_OK);
    json_array_foreach(list, i, one) {
        (void)printf("%s.%s", json_string_value(json_object_get(one, "domain")),
                     json_string_value(json_object_get(one, "operator")));
        json_array_foreach(json_object_get(one, "versions"), k, version)
            (void)printf("%s%d", k == 0 ? " " : ", ", (int)json_integer_value(version));
        (void)putchar('\n');
    }
    json_decref(list);
    return CLI_OK;
}

static inlay_status add_device(void *user, const inlay_device_info *info)
{
    (void)json_array_append_new(
        user, json_pack("{s:s?, s:s?, s:s?, s:s?, s:s?, s:s, s:I, s:I, s:b}", "name", info->name, "option",
                        info->option, "value", info->value, "unusable", info->unusable, "facts", info->facts, "kind",
                        device_text(info->kind), "bytes", (json_int_t)info->memory_bytes, "free_bytes",
                        (json_int_t)info->free_bytes, "unified", (info->flags & INLAY_DEVICE_UNIFIED) != 0));
    return INLAY_OK;
}

/* If there is no device, the provider's reason is in "no_device". */
static void add_devices(const plugin_provider *provider, json_t *to)
{
    json_t *list = json_array();
    inlay_diag diag = INLAY_DIAG_INIT;

    if (provider->table->enumerate == NULL) {
        json_decref(list);
        return;
    }
    if (plugin_devices(provider, add_device, list, &diag) != INLAY_OK)
        (void)json_object_set_new(to, "no_device", json_string(diag.text));
    (void)json_object_set_new(to, "devices", list);
}

static json_t *provider_json(const plugin_provider *provider)
{
    json_t *options = json_array(), *domains = json_array(), *json;

    for (uint32_t i = 0; i < provider->table->option_count; i++) {
        const inlay_option *option = &provider->options[i];
        (void)json_array_append_new(options, json_pack("{s:s, s:s, s:s?, s:s?, s:s?}", "name", option->name, "kind",
                                                       option_kind_text(option->kind), "default", option->default_value,
                                                       "choices", option->choices, "doc", option->doc));
    }
    for (uint32_t i = 0; i < provider->table->domain_count; i++)
        (void)json_array_append_new(domains, json_pack("{s:s, s:I}", "name", provider->domains[i].name, "bytes",
                                                       (json_int_t)provider->domains[i].memory_bytes));
    json = json_pack("{s:s, s:s?, s:s, s:s, s:o, s:o}", "name", provider->table->name, "description",
                     provider->table->description, "device", device_text(provider->table->device_kind), "file",
                     provider->file->path, "options", options, "domains", domains);
    add_devices(provider, json);
    return json;
}

static json_t *make_json(const plugin_set *set)
{
    json_t *files = json_array(), *providers = json_array(), *operators = json_array();

    for (uint32_t i = 0; i < plugin_set_file_count(set); i++) {
        const plugin_file *file = plugin_set_file(set, i);
        char why[512];
        const uint32_t models = plugin_file_crashes(file, why, sizeof why);

        (void)json_array_append_new(
            files,
            json_pack("{s:s, s:b, s:s, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:i, s:s?}", "path", file->path,
                      "loaded", (int)file->loaded, "outcome", plugin_outcome_text(file->outcome), "reason",
                      file->reason, "shadowed_by", file->shadowed_by, "advice", file->advice, "fix", file->fix, "name",
                      file->name, "version", file->version, "build_id", file->build_id, "note_providers",
                      file->providers, "crashed_models", (int)models, "crash", models > 0 ? why : NULL));
    }
    for (uint32_t i = 0; i < plugin_set_provider_count(set); i++)
        (void)json_array_append_new(providers, provider_json(plugin_set_provider(set, i)));
    for (uint32_t i = 0; i < plugin_set_operator_count(set); i++) {
        const inlay_operator *operator= plugin_set_operator(set, i);
        (void)json_array_append_new(operators, json_pack("{s:s, s:s, s:I, s:s, s:s?}", "domain", operator->domain,
                                                         "operator", operator->op_type, "since_version",
                                                         (json_int_t) operator->since_version,
                                                         "signature", operator->signature, "doc", operator->doc));
    }
    return json_pack("{s:o, s:o, s:o}", "files", files, "providers", providers, "operators", operators);
}

int cmd_providers(int argc, char **argv)
{
    static const cli_verb verb = { NULL, doc_providers, options_of_providers, NULL };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set = NULL;
    providers_flags flags = { 0 };
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_CACHE | CLI_SETTINGS_PLUGINS | CLI_SETTINGS_PROVIDERS, argc, argv, &common, &flags);
    if ((flags.retry != NULL ? cli_plugins_again(&common, flags.retry, &set, &diag)
                             : cli_plugins(&common, 0, &set, &diag)) != INLAY_OK)
        code = cli_fail(&common, &diag);
    else if (flags.types)
        code = cli_types_text(set, &diag) == INLAY_OK ? CLI_OK : cli_fail(&common, &diag);
    else if (flags.operators)
        code = print_operators(&common, set);
    else if (flags.kernels && common.json)
        code = cli_print_json(&common, cli_sources_json(set, common.options), CLI_OK);
    else if (flags.kernels)
        cli_sources_text(set, common.options);
    else if (common.json)
        code = cli_print_json(&common, make_json(set), CLI_OK);
    else
        print_text(set, flags.options);
    plugin_set_destroy(set);
    cli_common_deinit(&common);
    return code;
}
