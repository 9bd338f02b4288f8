/* serve/yaml.h - reading YAML files by libcyaml's schemas, with mistakes as one line. */
#ifndef SERVE_YAML_H
#define SERVE_YAML_H
#include "inlay/status.h"
#include <cyaml/cyaml.h>

/* The file as *out_data, to be given to yaml_free(); NULL for an empty file. */
INLAY_NODISCARD inlay_status yaml_load(const char *path, const cyaml_schema_value_t *schema, void **out_data,
                                       inlay_diag *diag);
void yaml_free(const cyaml_schema_value_t *schema, void *data);
#endif
