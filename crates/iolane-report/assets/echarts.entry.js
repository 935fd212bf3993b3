// The modules of Apache ECharts that the pages use. `cargo xtask assets` bundles them into echarts.min.js.
import { init, use } from "echarts/core";
import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { GridComponent, TooltipComponent } from "echarts/components";
import { SVGRenderer } from "echarts/renderers";

use([BarChart, CustomChart, LineChart, ScatterChart, GridComponent, TooltipComponent, SVGRenderer]);
export { init };
