#include "cli/sources.h"
#include "cli/cells.h"
#include "config/options.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include <stdlib.h>
#include <string.h>

/* Opens provider i with the settings of these options. *list: its table of kernel sources, NULL if it has none; valid
 * until provider_close(). */
static inlay_status open_sources(plugin_set *set, uint32_t i, const inlay_options *options, const struct provider **out,
                                 const inlay_ext_sources **list, inlay_diag *diag)
{
    const plugin_provider *info = plugin_set_provider(set, i);
    const char *name = info->table->name, *isa = options_text(options, OPTION_isa);
    const size_t bytes = strlen(name);
    provider_setting *settings = calloc((size_t)options->setting_count + 1, sizeof *settings);
    uint32_t count = 0;
    inlay_status status;

    *out = NULL;
    *list = NULL;
    if (settings == NULL)
        return no_memory(diag, "for the settings of provider %s", name);
    for (uint32_t k = 0; k < info->table->option_count && strcmp(isa, "auto") != 0 && count == 0; k++)
        if (strcmp(info->options[k].name, "isa") == 0)
            settings[count++] = (provider_setting){ "isa", isa };
    for (uint32_t k = 0; k < options->setting_count; k++) {
        const provider_setting *setting = &options->settings[k];

        if (strncmp(setting->name, name, bytes) == 0 && setting->name[bytes] == '.')
            settings[count++] = (provider_setting){ setting->name + bytes + 1, setting->value };
    }
    status = provider_open(set, name, settings, count, out, diag);
    free(settings);
    if (status == INLAY_OK && (*out)->table->extension != NULL)
        *list = (*out)->table->extension((*out)->state, INLAY_EXT_SOURCES);
    if (*list != NULL && !INLAY_HAS(*list, source_stride))
        *list = NULL;
    return status;
}

static const inlay_kernel_source *source_at(const inlay_ext_sources *list, uint32_t i)
{
    return INLAY_AT(inlay_kernel_source, list->sources, list->source_stride, i);
}

static void print_sources(const char *provider_name, const inlay_ext_sources *list)
{
    enum { KERNEL, SOURCE, INSTANCES, RUNS, COLUMNS };
    static const table_column columns[COLUMNS] = { { "kernel", NULL, TABLE_NAME },
                                                   { "source", NULL, TABLE_NAME },
                                                   { "instances", NULL, TABLE_NAME },
                                                   { "runs", NULL, TABLE_NAME } };
    struct table table = { .columns = columns, .column_count = COLUMNS, .indent = 2 };

    for (uint32_t i = 0; i < list->source_count; i++) {
        const inlay_kernel_source *source = source_at(list, i);

        table_row(&table);
        table_text(&table, KERNEL, source->name);
        table_text(&table, SOURCE, source->file);
        table_text(&table, INSTANCES, source->instances);
        table_text(&table, RUNS, source->chosen != NULL ? source->chosen : "none");
    }
    (void)printf("%s\n", provider_name);
    cells_print(&table);
}

void cli_sources_text(plugin_set *set, const inlay_options *options)
{
    uint32_t printed = 0;

    for (uint32_t i = 0; i < plugin_set_provider_count(set); i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        const inlay_ext_sources *list;
        const struct provider *provider;

        if (open_sources(set, i, options, &provider, &list, &diag) != INLAY_OK) {
            (void)printf("%s: %s\n", plugin_set_provider(set, i)->table->name, diag.text);
        } else if (list != NULL) {
            print_sources(provider->name, list);
            printed++;
        }
        provider_close(provider);
    }
    if (printed == 0)
        (void)printf("no provider lists its kernels\n");
}

/* "a|b" as ["a", "b"] */
static json_t *split(const char *text)
{
    json_t *parts = json_array();

    for (size_t n; *text != '\0'; text += n + (text[n] == '|')) {
        n = strcspn(text, "|");
        (void)json_array_append_new(parts, json_stringn(text, n));
    }
    return parts;
}

json_t *cli_sources_json(plugin_set *set, const inlay_options *options)
{
    json_t *providers = json_array();

    for (uint32_t i = 0; i < plugin_set_provider_count(set); i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        json_t *kernels = json_array();
        const inlay_ext_sources *list;
        const struct provider *provider;
        const inlay_status status = open_sources(set, i, options, &provider, &list, &diag);

        for (uint32_t k = 0; list != NULL && k < list->source_count; k++) {
            const inlay_kernel_source *source = source_at(list, k);

            (void)json_array_append_new(kernels,
                                        json_pack("{s:s, s:s, s:o, s:s?}", "name", source->name, "source", source->file,
                                                  "instances", split(source->instances), "chosen", source->chosen));
        }
        (void)json_array_append_new(providers,
                                    json_pack("{s:s, s:o, s:s?}", "provider", plugin_set_provider(set, i)->table->name,
                                              "kernels", kernels, "error", status != INLAY_OK ? diag.text : NULL));
        provider_close(provider);
    }
    return providers;
}
