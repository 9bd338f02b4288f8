/* serve/base/extensions.h - the extensions of the protocol that the server has. */
#ifndef SERVE_EXTENSIONS_H
#define SERVE_EXTENSIONS_H

/* As GET /v2 and ServerMetadata list them, with Triton's names. */
static const char *const server_extensions[] = { "binary_tensor_data",
                                                 "model_repository",
                                                 "model_repository(unload_dependents)",
                                                 "model_configuration",
                                                 "schedule_policy",
                                                 "sequence",
                                                 "parameters",
                                                 "statistics",
                                                 "trace",
                                                 "logging",
                                                 "system_shared_memory" /* the last one; only if it is enabled */ };
enum { SERVER_EXTENSIONS = sizeof server_extensions / sizeof server_extensions[0] };
#endif
