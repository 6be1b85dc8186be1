/* The labels that libggml-vulkan puts around its dispatches where GGML_VK_DEBUG_MARKERS is set: the
 * name of the pipeline and the work groups, "matmul_f32_f32_l (1,4,1)".
 *
 * The backend asks the Vulkan loader for the functions that take them. This library is opened
 * RTLD_GLOBAL before the backend, answers for those two and passes every other question on, so that
 * the labels come here and not to the driver.
 */
#include "interpose.h"

#include <pthread.h>
#include <stdbool.h>

enum { ROOM = 1 << 20 };

/* VkDebugUtilsLabelEXT of vulkan_core.h */
struct label {
    int          type;
    const void * next;
    const char * name;
    float        color[4];
};

typedef void (*function_t)(void);
typedef function_t (*get_function_t)(void * instance, const char * name);

static struct interposed ASK = { "vkGetInstanceProcAddr", NULL, 0 };
static pthread_mutex_t   mutex = PTHREAD_MUTEX_INITIALIZER;
static char              kept[ROOM];
static size_t            length;
static bool              keeping, full;

static void begin(void * commands, const struct label * label) {
    (void) commands;
    const size_t size = strlen(label->name);
    pthread_mutex_lock(&mutex);
    if (keeping && length + size + 1 > ROOM) {
        full = true;
    } else if (keeping) {
        memcpy(kept + length, label->name, size);
        kept[length + size] = '\n';
        length += size + 1;
    }
    pthread_mutex_unlock(&mutex);
}

static void end(void * commands) {
    (void) commands;
}

INTERPOSE_API function_t vkGetInstanceProcAddr(void * instance, const char * name) {
    interpose_count(&ASK);
    if (strcmp(name, "vkCmdBeginDebugUtilsLabelEXT") == 0) {
        return (function_t) begin;
    }
    if (strcmp(name, "vkCmdEndDebugUtilsLabelEXT") == 0) {
        return (function_t) end;
    }
    get_function_t original;
    void * address = interpose_original(&ASK);
    memcpy(&original, &address, sizeof(original));
    return original(instance, name);
}

/* Forgets what was kept and keeps what comes. */
INTERPOSE_API void ggmlprobe_labels_start(void) {
    pthread_mutex_lock(&mutex);
    length = 0;
    full = false;
    keeping = true;
    pthread_mutex_unlock(&mutex);
}

/* Keeps no more. The labels since the start, a line each, with their length; NULL where there were
 * more than there is room for. They stay until the next start. */
INTERPOSE_API const char * ggmlprobe_labels_stop(size_t * size) {
    pthread_mutex_lock(&mutex);
    keeping = false;
    *size = length;
    const char * lines = full ? NULL : kept;
    pthread_mutex_unlock(&mutex);
    return lines;
}

/* Symbol of the i-th replaced function, NULL past the last. */
INTERPOSE_API const char * ggmlprobe_interposed(int i) {
    return i == 0 ? ASK.symbol : NULL;
}

INTERPOSE_API uint64_t ggmlprobe_calls(int i) {
    return i == 0 ? __atomic_load_n(&ASK.calls, __ATOMIC_RELAXED) : 0;
}
