#include "cli/doctor_report.h"
#include "base/core_kind.h"
#include "base/cpus.h"
#include "base/path.h"
#include "cli/plugins.h"
#include "config/options.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* The version of Linux, in text; "another system": there is no /proc. */
static const char *read_system(char text[128])
{
    FILE *file = fopen("/proc/sys/kernel/osrelease", "re");
    char release[64] = "";

    if (file != NULL && fgets(release, sizeof release, file) != NULL)
        release[strcspn(release, "\n")] = '\0';
    if (file != NULL)
        (void)fclose(file);
    (void)snprintf(text, 128, release[0] != '\0' ? "Linux %s" : "another system%s", release);
    return text;
}

/* The settings that are not defaults, "NAME=VALUE". */
static json_t *settings_json(const inlay_options *options)
{
    inlay_setting setting = { .struct_size = sizeof setting };
    json_t *list = json_array();

    for (uint32_t i = 0; inlay_options_setting(options, i, &setting) == INLAY_OK; i++) {
        const uint32_t option = options_find(setting.name);
        const bool is_path =
            option < OPTION_COUNT && (options_kind(option) == KIND_PATH || options_kind(option) == KIND_PATHS);

        if (setting.source != INLAY_SOURCE_DEFAULT)
            (void)json_array_append_new(
                list, json_sprintf("%s=%s", setting.name, is_path ? path_name(setting.text) : setting.text));
    }
    return list;
}

static json_t *plugins_json(const plugin_set *set)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < plugin_set_file_count(set); i++) {
        const plugin_file *file = plugin_set_file(set, i);

        (void)json_array_append_new(
            list, json_sprintf("%s: %s %s, %s", path_name(file->path), file->name != NULL ? file->name : "unknown",
                               file->version != NULL ? file->version : "", plugin_outcome_text(file->outcome)));
    }
    return list;
}

static void print(const json_t *report)
{
    const char *key;
    json_t *value, *item;
    size_t i;

    json_object_foreach((json_t *)(uintptr_t)report, key, value) {
        if (json_is_string(value))
            (void)printf("%s: %s\n", key, json_string_value(value));
        else
            (void)printf("%s:%s\n", key, json_array_size(value) == 0 ? " none" : "");
        json_array_foreach(value, i, item)
            (void)printf("  %s\n", json_string_value(item));
    }
}

int doctor_report(const cli_common *common)
{
    const core_kind *kind = core_kind_in_use();
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set = NULL;
    char system[128];
    json_t *report, *plugins;

    plugins = cli_plugins(common, 0, &set, &diag) == INLAY_OK ? plugins_json(set) : json_pack("[s]", diag.text);
    report = json_pack("{s:s, s:s, s:o, s:o, s:o}", "inlay", inlay_version(), "system", read_system(system),
                       "processor", json_sprintf("%s, %u CPUs", kind->title, cpus_allowed()), "settings",
                       settings_json(common->options), "plugins", plugins);
    plugin_set_destroy(set);
    if (report == NULL) {
        (void)inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "no memory for the report");
        return cli_fail(common, &diag);
    }
    if (common->json)
        return cli_print_json(common, report, CLI_OK);
    print(report);
    json_decref(report);
    return CLI_OK;
}
