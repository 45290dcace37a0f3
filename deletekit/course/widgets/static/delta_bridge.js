import { show } from "./shared.js";

// Delta's actions and Iceberg's entries are drawn as every table is: side by side where there is room for both.
export default show();
