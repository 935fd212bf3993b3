// What report.html needs of Apache ECharts, and no more. `cargo xtask assets` bundles it into echarts.min.js.
import { init, use } from "echarts/core";
import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { GridComponent, TooltipComponent } from "echarts/components";
import { SVGRenderer } from "echarts/renderers";

use([BarChart, CustomChart, LineChart, ScatterChart, GridComponent, TooltipComponent, SVGRenderer]);
export { init };
