/* drawings.c - writes a page with every kind of content and chart, and a drawing as a file of its
 * own, for check_drawings.py: drawings FOLDER */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <qkv.h>

static const char hostile[] = "x</script><script>window.hacked = 1</script>\" onload='hacked = 1' "
                              "<img src=x onerror=hacked=1>\x1b[31m\xe2\x80\xae\xff";
enum { POINTS = 100, WORDS = 4, MAPS = 4, SIDE = 16 };

static qkv_context *ctx;
static qkv_page *page;

static void add(qkv_drawing *d, const char *id, const char *name)
{
    qkv_drawing_describe(d, name, "Made by a test.");
    qkv_page_figure(page, d, id, hostile);
}

static qkv_drawing *drawing(double width, double height)
{
    qkv_drawing *d;
    return qkv_drawing_create(&d, ctx, width, height) ? NULL : d;
}

static int lines(const char *folder)
{
    double y[POINTS], z[POINTS];
    for (int i = 0; i < POINTS; i++) {
        y[i] = 3.0 * exp(-i / 20.0) + 1.0;
        z[i] = i > 40 && i < 50 ? NAN : 3.3 * exp(-i / 30.0) + 1.1;
    }
    const qkv_curve curves[] = {{.name = "training", .y = y, .count = POINTS},
                                {.name = hostile, .y = z, .count = POINTS, .dashed = true}};
    qkv_drawing *d = drawing(640, 320);
    if (!d)
        return 1;
    qkv_draw_lines(d, NULL, &(qkv_line_chart){.title = "Loss", .x_label = "step",
                                              .y_label = "loss", .curves = curves, .count = 2});
    add(d, "loss", hostile);
    int failed = qkv_drawing_save(d, qkv_path_in(folder, "alone.svg").text) != QKV_OK;
    qkv_drawing_destroy(d);
    return failed;
}

static int maps(void)
{
    static const char *const words[] = {"The", "<b>cat", "sat\n", hostile};
    static float heat[WORDS * WORDS], many[MAPS * MAPS * SIDE * SIDE];
    uint8_t pixels[SIDE * SIDE * 3];
    double width, height;
    for (int i = 0; i < WORDS * WORDS; i++)
        heat[i] = i % WORDS > i / WORDS ? NAN : 1.0f / (float)(1 + i / WORDS);
    for (int i = 0; i < MAPS * MAPS * SIDE * SIDE; i++)
        many[i] = (float)(i % 97) / 96.0f;
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        pixels[i] = (uint8_t)(i * 7);
    const qkv_image image = {SIDE, SIDE, 3, pixels};
    qkv_heat_map h = {.title = "Weights", .values = heat, .rows = WORDS, .columns = WORDS,
                      .row_labels = words, .numbers = true, .key = "cells"};
    qkv_map_grid g = {.title = "Heads", .down = "layer", .across = "head", .values = many,
                      .maps_down = MAPS, .maps_across = MAPS, .rows = SIDE, .columns = SIDE,
                      .key = "map"};
    qkv_heat_size(&h, 40, &width, &height);
    qkv_drawing *d = drawing(width, height);
    if (!d)
        return 1;
    qkv_draw_heat(d, NULL, &h);
    add(d, "heat", "Attention weights");
    qkv_drawing_destroy(d);
    qkv_map_grid_size(&g, 60, &width, &height);
    d = drawing(width, height);
    if (!d)
        return 1;
    qkv_draw_map_grid(d, NULL, &g);
    add(d, "grid", "All heads");
    qkv_drawing_destroy(d);
    qkv_page_image(page, &image, "picture", "A picture", "A caption.");
    return 0;
}

static int write_page(const char *folder)
{
    static float data[5000];
    const char *const cells[] = {"1.5", hostile, "2.5", NULL};
    const char *const names[] = {hostile, "a", "b"};
    for (int i = 0; i < 5000; i++)
        data[i] = (float)(i / 50);
    qkv_page_heading(page, 2, "charts", "Charts");
    qkv_page_text(page, hostile);
    if (lines(folder))
        return 1;
    qkv_page_heading(page, 2, "maps", "Maps");
    if (maps())
        return 1;
    qkv_page_heading(page, 2, "tables", "Tables and data");
    qkv_page_table(page, &(qkv_page_table_options){.caption = hostile, .columns = names,
                                                   .rows = names, .cells = cells, .row_count = 2,
                                                   .column_count = 2, .numbers = true});
    qkv_page_begin(page, QKV_PAGE_DETAILS, "more", "More");
    qkv_page_code(page, "if (a < b && c)\n    d();");
    qkv_page_end(page);
    qkv_page_json(page, "json", "{\"text\": \"</script><script>hacked = 1</script>\", \"n\": 3}");
    qkv_page_bytes(page, "bytes", data, sizeof data);
    qkv_page_css(page, ".own { color: rgb(1, 2, 3); }");
    qkv_page_html(page, "<p class=\"own\" id=\"own\">own</p>");
    qkv_page_js(page, "window.own = qkv.json(\"json\").n;");
    return qkv_page_save(page, qkv_path_in(folder, "page.html").text) != QKV_OK;
}

int main(int argc, char **argv)
{
    if (argc != 2 || qkv_context_create(&ctx, NULL) ||
        qkv_page_create(&page, ctx, &(qkv_page_options){.title = hostile, .subtitle = hostile}))
        return 2;
    int failed = write_page(argv[1]);
    if (failed)
        printf("%s\n", qkv_context_message(ctx));
    qkv_page_destroy(page);
    qkv_context_destroy(ctx);
    return failed;
}
