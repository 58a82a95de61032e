/* SPDX-License-Identifier: Apache-2.0 */
/* The style of the page, but for its colours, which are report_palette's. */
#ifndef WEIR_CLI_REPORT_STYLE_H
#define WEIR_CLI_REPORT_STYLE_H

/*
 * Charts are there twice, and a screen shows the one that fits it. What is as wide as it has to be,
 * tables, scrolls by itself.
 */
#define REPORT_STYLE                                                                            \
	"*{box-sizing:border-box}\n"                                                            \
	"html{-webkit-text-size-adjust:100%}\n"                                                 \
	"body{margin:0;background:var(--paper);color:var(--ink);"                               \
	"font:16px/1.55 system-ui,sans-serif}\n"                                                \
	"main{max-width:828px;margin:0 auto;padding:24px 16px 64px}\n"                          \
	"h1{font-size:1.9rem;line-height:1.2;margin:.4em 0 .2em}\n"                             \
	"h2{font-size:1.35rem;line-height:1.3;margin:2.6em 0 .4em;padding-top:.8em;"            \
	"border-top:1px solid var(--grid)}\n"                                                   \
	"h3{font-size:1.05rem;margin:2em 0 .3em}\n"                                             \
	"p{margin:.5em 0;max-width:70ch;overflow-wrap:anywhere}\n"                              \
	".lead{font-size:1.08rem}\n"                                                            \
	".by,.note{color:var(--muted);font-size:.9rem}\n"                                       \
	"a{color:inherit}\n"                                                                    \
	"ul{margin:.4em 0;padding-left:1.2em;max-width:70ch}\n"                                 \
	"li{margin:.2em 0;overflow-wrap:anywhere}\n"                                            \
	"figure{margin:1em 0 1.6em}\n"                                                          \
	"figure svg{display:block;width:100%;height:auto}\n"                                    \
	"figure svg *{font-family:inherit}\n"                                                   \
	".marks{position:absolute}\n"                                                           \
	".narrow{max-width:520px;margin:0 auto}\n"                                              \
	"@media(max-width:639px){.wide{display:none!important}}\n"                              \
	"@media(min-width:640px){.narrow{display:none!important}}\n"                            \
	".table{overflow-x:auto;margin:1em 0;border:1px solid var(--grid);border-radius:6px}\n" \
	".table:focus-visible{outline:2px solid var(--m-native)}\n"                             \
	"table{border-collapse:collapse;width:100%;font-size:.86rem;"                           \
	"font-variant-numeric:tabular-nums}\n"                                                  \
	"caption{text-align:left;color:var(--muted);padding:8px 10px;caption-side:top}\n"       \
	"th,td{padding:4px 10px;text-align:right;white-space:nowrap}\n"                         \
	"thead th{color:var(--muted);font-weight:600;border-bottom:1px solid var(--grid);"      \
	"vertical-align:bottom;white-space:normal}\n"                                           \
	"tbody th{font-weight:400}\n"                                                           \
	".first td,.first th{border-top:1px solid var(--grid)}\n"                               \
	"pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.86rem;margin:.5em 0}\n"     \
	".l{text-align:left}\n"                                                                 \
	".swatch{display:inline-block;width:.7em;height:.7em;border-radius:50%;"                \
	"margin-right:.45em}\n"                                                                 \
	"dt{font-weight:600;margin-top:.7em}\n"                                                 \
	"dd{margin:0 0 0 1.2em;max-width:66ch}\n"                                               \
	"@media print{.narrow{display:none!important}.wide{display:block!important}}\n"

#endif
